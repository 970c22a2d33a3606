package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// chatCommands is the list that /help shows.
const chatCommands = `  /help            this list
  /system [TEXT]   set the system message; without TEXT, show it; /system - removes it
  /regen           answer the last message again, with the next seed (without --temperature that is the same answer)
  /reset           forget the conversation, but for the system message
  /stats           switch the report of token counts and rates on or off
  /exit            leave
  //...            a message that begins with a slash
`

var errLeave = errors.New("the user leaves")

// obey carries out a command.
func (c *chatCommand) obey(ctx context.Context, text string) error {
	if strings.HasPrefix(text, "//") {
		return c.say(ctx, text[1:])
	}
	name, argument, _ := strings.Cut(text, " ")
	switch argument = strings.TrimSpace(argument); name {
	case "/help", "/?":
		fmt.Fprint(c.err, chatCommands)
	case "/system":
		c.obeySystem(argument)
	case "/regen":
		return c.regenerate(ctx)
	case "/reset":
		c.talk.Messages = c.talk.Messages[:c.preamble()]
		c.note("the conversation is forgotten")
	case "/stats":
		c.stats = !c.stats
	case "/exit", "/quit", "/bye":
		return errLeave
	default:
		return fmt.Errorf("chat: there is no command %s; /help lists them, and // begins a message with a slash", name)
	}
	return nil
}

// preamble is how many messages precede the conversation: one if there is a system message.
func (c *chatCommand) preamble() int {
	if m := c.talk.Messages; len(m) > 0 && m[0].Role == "system" {
		return 1
	}
	return 0
}

func (c *chatCommand) obeySystem(argument string) {
	switch {
	case argument == "-":
		c.setSystem("")
		c.note("there is no system message")
	case argument != "":
		c.setSystem(argument)
		c.note("the system message is set")
	case c.preamble() > 0:
		fmt.Fprintf(c.err, "%v\n", c.talk.Messages[0].Content)
	default:
		c.note("there is no system message")
	}
}

// regenerate takes the last answer back and asks for another. If that fails, the old one stays.
func (c *chatCommand) regenerate(ctx context.Context) error {
	n := len(c.talk.Messages) - 2
	if n < c.preamble() {
		return errors.New("chat: there is no answer yet that could be given again")
	}
	before := c.talk.Messages
	text, _ := before[n].Content.(string)
	c.talk.Messages = before[:n:n]
	c.request.Sampling.Seed++
	err := c.say(ctx, text)
	if err != nil {
		c.talk.Messages = before
	}
	return err
}

// note tells people what a command did.
func (c *chatCommand) note(text string) {
	if c.people {
		fmt.Fprintf(c.err, "(%s)\n", text)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"memra"
	"memra/chat"
)

// chatCommand is a conversation: it reads messages and commands, and writes answers.
type chatCommand struct {
	*app
	model   modelFlags
	answer  requestFlags
	system  string
	stats   bool
	request memra.Request

	people  bool // at both ends: prompts are shown, an error does not end the conversation
	lines   lineReader
	talk    *memra.Chat
	stop    answering
	pressed bool // Ctrl-C was the last thing that the user did
}

// lineReader reads what the user enters.
type lineReader interface {
	// line returns the next line without its end. io.EOF: there is none, or the user leaves; errAbandoned: the user gave up
	// an empty line by Ctrl-C, and with it the message that it would have belonged to.
	line(prompt string) (string, error)
	close() error
}

var errAbandoned = errors.New("the message was given up")

func newChat(a *app) *cobra.Command {
	c := &chatCommand{app: a}
	cmd := &cobra.Command{
		Use:   "chat -m MODEL [flags]",
		Short: "Hold a conversation in the terminal",
		Long: `Hold a conversation in the terminal, with line editing and a history that is kept between conversations.

Enter sends a message. A line that ends with a backslash goes on in the next one; so does everything between two """, and text that
is pasted. Ctrl-C stops an answer, or clears a line; twice, it leaves, as Ctrl-D does. Commands:
` + chatCommands + `
Where standard input is no terminal, each line is a message, and only answers are written to standard output.`,
		Example: `  memra chat -m model.gguf
  memra chat -m model.gguf --system 'You are terse.' --temperature 0.8 --top-p 0.95
  printf 'Hi, I am Ada.\nWho am I?\n' | memra chat -m model.gguf`,
		Args: cobra.NoArgs,
		RunE: c.run,
	}
	c.model.add(cmd, 0, contextUsage)
	c.model.drafts.add(cmd)
	c.model.prefix.add(cmd)
	c.answer.add(cmd, -1)
	cmd.Flags().StringVar(&c.system, "system", "", "system message")
	cmd.Flags().BoolVar(&c.stats, "stats", false, "write token counts and rates to standard error after each answer")
	return cmd
}

func (c *chatCommand) run(cmd *cobra.Command, _ []string) (err error) {
	if c.model.path == "" {
		return usage(cmd, "no model is given; name one that converses with -m (the built-in one completes Go code: memra run, memra complete)")
	}
	if c.request, err = c.answer.request(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	defer c.listen(cancel)()
	m, err := c.model.open(ctx, c.app)
	if err != nil {
		return cause(ctx, err)
	}
	defer m.Close()
	if c.talk, err = m.Chat(); err != nil {
		return err
	}
	c.setSystem(c.system)

	c.people = isTerminal(c.in) && isTerminal(c.out)
	if c.people {
		c.lines = newEditor(c.in.(*os.File), c.out.(*os.File), openHistory(c.log))
		fmt.Fprintf(c.err, "%s, %s. /help lists the commands, Ctrl-D leaves.\n", c.model.path, m.Device())
	} else {
		c.lines = newPlainLines(c.in)
	}
	defer c.lines.close()
	return cause(ctx, c.converse(ctx))
}

// listen directs signals: SIGINT to the answer that is being given, if there is one, else like SIGTERM to everything.
func (c *chatCommand) listen(cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM || !c.stop.now() {
					cancel(signalError{s})
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// answering lets one goroutine stop the answer that another is giving.
type answering struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil: no answer is being given, or it has been told to stop
}

func (a *answering) set(cancel context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel = cancel
}

// now stops the answer, and reports whether there was one to stop.
func (a *answering) now() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel == nil {
		return false
	}
	a.cancel()
	a.cancel = nil
	return true
}

// converse goes on until the user leaves. Where nobody is there to read an error and try again, the first one ends it.
func (c *chatCommand) converse(ctx context.Context) error {
	for {
		text, literal, err := c.message(ctx)
		switch {
		case err == io.EOF:
			return nil
		case err == errAbandoned && c.pressed:
			return nil
		case err == errAbandoned:
			c.pressed = true
			c.note("Ctrl-C again leaves, and so does Ctrl-D")
			continue
		case err != nil:
			return err
		}
		if literal || !strings.HasPrefix(text, "/") {
			err = c.say(ctx, text)
		} else {
			err = c.obey(ctx, text)
		}
		switch {
		case err == errLeave:
			return nil
		case err != nil && (!c.people || ctx.Err() != nil):
			return err
		case err != nil:
			c.complain(err)
		}
	}
}

// The prompts of a message's first line and of those that follow.
const (
	firstPrompt = "> "
	nextPrompt  = ". "
)

// The marks of multi-line messages.
const (
	fence        = `"""`
	continuation = `\`
)

// message is the next message, or a command unless it is said to be a message whatever it looks like.
func (c *chatCommand) message(ctx context.Context) (text string, literal bool, err error) {
	line, err := c.line(ctx, firstPrompt)
	if err != nil {
		return "", false, err
	}
	if rest, fenced := strings.CutPrefix(strings.TrimLeft(line, " \t"), fence); fenced {
		text, err := c.fenced(ctx, rest)
		return text, true, unfinished(err)
	}
	for strings.HasSuffix(line, continuation) {
		next, err := c.line(ctx, nextPrompt)
		if err != nil {
			return "", false, unfinished(err)
		}
		line = strings.TrimSuffix(line, continuation) + "\n" + next
	}
	return line, false, nil
}

// fenced is the text from behind an opening fence to the closing one.
func (c *chatCommand) fenced(ctx context.Context, rest string) (string, error) {
	var lines []string
	for first := true; ; first = false {
		body, closed := strings.CutSuffix(strings.TrimRight(rest, " \t"), fence)
		if closed {
			rest = body
		}
		if rest != "" || !first && !closed {
			lines = append(lines, rest)
		}
		if closed {
			return strings.Join(lines, "\n"), nil
		}
		var err error
		if rest, err = c.line(ctx, nextPrompt); err != nil {
			return "", err
		}
	}
}

// unfinished is the error of a message that its end of input cuts off.
func unfinished(err error) error {
	if err == io.EOF {
		return errors.New(`chat: the input ends inside a message; close it with """, or end its last line without a backslash`)
	}
	return err
}

// line reads a line, or returns early when the context ends.
func (c *chatCommand) line(ctx context.Context, prompt string) (string, error) {
	line, err := await(ctx, func() (string, error) { return c.lines.line(prompt) })
	c.pressed = c.pressed && err != nil
	return line, err
}

// say sends a message and writes the answer.
func (c *chatCommand) say(ctx context.Context, text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if err := checkUTF8(text, "message"); err != nil {
		return err
	}
	answerCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.stop.set(cancel)
	defer c.stop.set(nil)
	var done *memra.Done
	begun := false
	var failed error
	for chunk, err := range c.talk.Send(answerCtx, text, c.request) {
		if failed = err; err != nil {
			break
		}
		if _, failed = fmt.Fprint(c.out, chunk.Text); failed != nil {
			break
		}
		begun, done = true, chunk.Done
	}
	if begun || answerCtx.Err() != nil { // what comes next begins a line
		if _, err := fmt.Fprintln(c.out); failed == nil {
			failed = err
		}
	}
	if answerCtx.Err() != nil && ctx.Err() == nil { // the user has stopped it; what came is part of the conversation
		c.pressed = true
		return nil
	}
	if failed == nil && c.stats && done != nil {
		fmt.Fprint(c.err, statsText(done))
		if done.Missed != "" && done.Reused+1 < done.Prompt {
			fmt.Fprintf(c.err, "kept    %5d tokens, and no more: %s\n", done.Reused, done.Missed)
		}
	}
	return failed
}

// setSystem sets the system message, or removes it.
func (c *chatCommand) setSystem(text string) {
	rest := c.talk.Messages
	if len(rest) > 0 && rest[0].Role == "system" {
		rest = rest[1:]
	}
	c.talk.Messages = nil
	if text != "" {
		c.talk.Messages = append(c.talk.Messages, chat.Message{Role: "system", Content: text})
	}
	c.talk.Messages = append(c.talk.Messages, rest...)
}

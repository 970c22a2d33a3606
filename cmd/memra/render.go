package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"memra"
	"memra/chat"
)

type renderCommand struct {
	*app
	model    modelFlags
	template string
	tools    string
	open     bool // leave the prompt where the last message ends
	output   choice
}

func newRender(a *app) *cobra.Command {
	c := &renderCommand{app: a, output: choices("text", "json")}
	cmd := &cobra.Command{
		Use:   "render (-m MODEL | --template FILE) [flags] MESSAGES.json|-",
		Short: "Show the prompt that a chat template makes of a conversation",
		Long: `Show the prompt that a chat template makes of a conversation, byte for byte.

MESSAGES.json is an array of messages as the chat completions API has them: [{"role":"user","content":"Hi"}]. Arguments of tool
calls go in as they come, text or object. The template is the model's, or FILE's; with both flags it is FILE's, with the model's
start and end token, which a template alone does not know. Text output is the prompt and nothing else; JSON is {"prompt":..}.`,
		Example: `  memra render -m model.gguf messages.json
  memra render --template chat_template.jinja --tools tools.json -o json messages.json
  memra render -m model.gguf --no-generation-prompt -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments, want one file of messages, or - to read standard input", len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE:              interruptible(c.run),
	}
	c.model.addPath(cmd)
	cmd.Flags().StringVar(&c.template, "template", "", "file of a chat template, instead of the model's own")
	cmd.Flags().StringVar(&c.tools, "tools", "", "file of tools: a JSON array, as the chat completions API has it")
	cmd.Flags().BoolVar(&c.open, "no-generation-prompt", false, "do not begin the answer")
	c.output.addOutput(cmd)
	return cmd
}

func (c *renderCommand) run(ctx context.Context, cmd *cobra.Command, args []string) error {
	if c.model.path == "" && c.template == "" {
		return usage(cmd, "no template is given; name a model with -m, or a template's file with --template")
	}
	in := chat.Input{AddGenerationPrompt: !c.open}
	if err := c.read(ctx, args[0], "messages", &in.Messages); err != nil {
		return err
	}
	if c.tools != "" {
		if err := c.read(ctx, c.tools, "tools", &in.Tools); err != nil {
			return err
		}
	}
	t, err := c.parse()
	if err != nil {
		return err
	}
	prompt, err := t.Render(in)
	if err != nil {
		return err
	}
	if c.output.value == "json" {
		return writeJSON(c.out, struct {
			Prompt string `json:"prompt"`
		}{prompt})
	}
	if isTerminal(c.out) {
		prompt = harmless(prompt) + "\n"
	}
	_, err = io.WriteString(c.out, prompt)
	return err
}

// parse reads the template.
func (c *renderCommand) parse() (*memra.Template, error) {
	if c.template == "" {
		return memra.OpenTemplate(c.model.path)
	}
	source, err := os.ReadFile(c.template)
	switch {
	case err != nil:
		return nil, fmt.Errorf("template: %w", err)
	case len(source) == 0:
		return nil, fmt.Errorf("template: %s is empty", c.template)
	case c.model.path == "":
		return memra.ParseTemplate(string(source))
	}
	return memra.OpenTemplateFor(c.model.path, string(source))
}

// read reads a JSON value from a file, or from standard input for "-".
func (c *renderCommand) read(ctx context.Context, path, what string, into any) error {
	var data []byte
	var err error
	if path == "-" {
		data, err = await(ctx, func() ([]byte, error) { return io.ReadAll(c.in) })
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("%s: %s: byte %d: %w; want a JSON array", what, path, syntax.Offset, err)
		}
		return fmt.Errorf("%s: %s: %w; want a JSON array", what, path, err)
	}
	return nil
}

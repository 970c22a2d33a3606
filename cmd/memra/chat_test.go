package main

import (
	"strings"
	"testing"
)

func TestPipedConversationWritesAnswersAlone(t *testing.T) {
	model := chatModel(t)
	run := func(prompt string) string {
		return succeed(t, "", "run", "-m", model, "-n", "4", "--raw", prompt)
	}
	first := run("user:Hi;>")
	second := run("user:Hi;assistant:" + first + ";user:So;>")
	fresh := run("system:S;user:So;>")
	slash := run("system:S;user:/x\ny;>")
	for _, c := range []struct {
		name, input string
		want        []string
	}{
		{"two turns", "Hi\nSo\n", []string{first, second}},
		{"no line end at the end", "Hi\nSo", []string{first, second}},
		{"line ends of another system", "Hi\r\nSo\r\n", []string{first, second}},
		{"empty lines say nothing", "\nHi\n  \nSo\n", []string{first, second}},
		{"again", "Hi\n/regen\n", []string{first, first}},
		{"after again", "Hi\n/regen\nSo\n", []string{first, first, second}},
		{"forgotten", "Hi\n/reset\nHi\n", []string{first, first}},
		{"a system message, forgotten but for it", "Hi\n/system S\n/reset\nSo\n", []string{first, fresh}},
		{"a system message that comes and goes", "/system S\n/system -\nHi\n", []string{first}},
		{"several lines between fences", "/system S\n\"\"\"/x\ny\"\"\"\n", []string{slash}},
		{"fences on lines of their own", "/system S\n\"\"\"\n/x\ny\n\"\"\"\n", []string{slash}},
		{"several lines by backslash, a slash first", "/system S\n//x\\\ny\n", []string{slash}},
		{"leaving", "Hi\n/exit\nSo\n", []string{first}},
		{"nothing", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Join(append(c.want, ""), "\n")
			o := invoke(t, c.input, "chat", "-m", model, "-n", "4")
			if o.status != 0 || o.out != want || o.err != "" {
				t.Errorf("%+v, want %q", o, want)
			}
		})
	}
}

func TestSystemFlagBeginsTheConversation(t *testing.T) {
	model := chatModel(t)
	want := succeed(t, "", "run", "-m", model, "-n", "4", "--system", "S", "Hi") + "\n"
	if got := succeed(t, "Hi\n", "chat", "-m", model, "-n", "4", "--system", "S"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChatCommandsAnswerOnStandardError(t *testing.T) {
	o := invoke(t, "/help\n/system\n/system Be brief.\n/system\n/stats\nHi\n", "chat", "-m", chatModel(t), "-n", "2")
	for _, want := range []string{"/regen", "Be brief.", "answer      2 tokens", "kept        0 tokens, and no more: nothing is cached"} {
		if o.status != 0 || !strings.Contains(o.err, want) {
			t.Errorf("no %q in %+v", want, o)
		}
	}
	if strings.Contains(o.out, "/regen") || strings.Contains(o.out+o.err, "\x1b") {
		t.Errorf("%+v", o)
	}
}

func TestRegenerateTakesTheNextSeed(t *testing.T) {
	model := chatModel(t)
	args := []string{"chat", "-m", model, "-n", "8", "--temp", "3", "-s"}
	both := succeed(t, "Hi\n/regen\n", append(args, "1")...)
	one, two := succeed(t, "Hi\n", append(args, "1")...), succeed(t, "Hi\n", append(args, "2")...)
	if one == two || both != one+two {
		t.Errorf("%q, want %q and %q", both, one, two)
	}
}

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// numbers is a flag that takes whole numbers with commas between, and may be repeated. The first use replaces the default.
type numbers struct {
	value       []int
	least, most int
	given       bool
}

func (n *numbers) Type() string { return "ints" }
func (n *numbers) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(n.value), " ", ","), "[]")
}

func (n *numbers) Set(text string) error {
	var value []int
	for word := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || i < n.least || i > n.most {
			return fmt.Errorf("want whole numbers from %d to %d, with commas between", n.least, n.most)
		}
		value = append(value, i)
	}
	if n.given {
		value = append(n.value, value...)
	}
	n.value, n.given = value, true
	return nil
}

// plainer rewrites an error of the flag parser that speaks of Go functions.
func plainer(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	reason := invalid.Unwrap()
	var number *strconv.NumError
	if errors.As(reason, &number) {
		reason = fmt.Errorf("want a number of type %s", invalid.GetFlag().Value.Type())
	}
	return fmt.Errorf("--%s is %q: %w", invalid.GetFlag().Name, invalid.GetValue(), reason)
}

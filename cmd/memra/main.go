// Command memra runs open-weight language models on this machine: one answer, a conversation, a measurement.
//
// Results go to standard output and nothing else does; errors, statistics and log lines go to standard error. The exit status
// is 0, 1 after an error, 2 after a command line that cannot be meant, and 128 and the signal's number after a signal.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

//go:build race

package bounded

// instrumented says that the race detector is on: it makes everything slow, and that is no reader's fault.
const instrumented = true

//go:build !race

package bounded

const instrumented = false

//go:build unix && !linux

package cpu

// hugePages: these systems choose the size of pages themselves.
func hugePages([]byte) {}

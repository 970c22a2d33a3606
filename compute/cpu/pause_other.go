//go:build !amd64 || noasm

package cpu

// pause does nothing where there is no instruction for it here.
func pause() {}

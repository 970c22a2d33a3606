//go:build !linux || !(amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
)

func openDriver() (driver, error) {
	return nil, fmt.Errorf("%w: %s on %s is not supported, want linux on amd64 or arm64; compute on the CPU", ErrNoGPU, runtime.GOOS, runtime.GOARCH)
}

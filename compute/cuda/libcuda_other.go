//go:build !linux || !(amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
)

func openDriver() (driver, error) {
	return nil, fmt.Errorf("cuda: %s on %s is not supported, want linux on amd64 or arm64; compute on the CPU", runtime.GOOS, runtime.GOARCH)
}

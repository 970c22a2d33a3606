package bounded

import (
	"testing"
	"time"
)

// recorder is a test that notes whether it was failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

var kept []byte // what escapes is allocated

func TestABrokenPromiseIsSeen(t *testing.T) {
	p := promise{time: 100 * time.Millisecond, memory: 8 << 20}
	slow := 0
	for _, c := range []struct {
		name string
		size int
		read func()
		fail bool
	}{
		{"nothing", 0, func() {}, false},
		{"too slow", 10, func() { time.Sleep(p.time * 3 / 2) }, true},
		{"slow once, as on a busy machine", 10, func() {
			if slow++; slow == 1 {
				time.Sleep(p.time * 3 / 2)
			}
		}, false},
		{"slow, but of many bytes", 1 << 20, func() { time.Sleep(p.time * 3 / 2) }, false},
		{"much memory at once", 1 << 20, func() { kept = make([]byte, p.memory+2<<20); time.Sleep(10 * time.Millisecond) }, true},
		{"as much as is allowed", 1 << 20, func() { kept = make([]byte, p.memory) }, false},
		{"much, but nearly all of it garbage", 10, func() {
			for range 100 {
				kept = make([]byte, 1<<20)
			}
		}, false},
	} {
		kept = nil
		r := &recorder{TB: t}
		if p.check(r, c.size, c.read); r.failed != c.fail {
			t.Errorf("%s: failed: %v, want %v", c.name, r.failed, c.fail)
		}
	}
}

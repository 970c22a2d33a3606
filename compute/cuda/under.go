package cuda

import (
	"fmt"
	"slices"
	"unsafe"

	"memra/compute"
	"memra/sample"
)

// under is a step under way: what it brings back, and an event that follows it, where another step may.
type under struct {
	busy    bool // nobody has waited for it
	output  pinnedBuffer
	bytes   int // of it
	done    handle
	turn    int // the number of the step
	kernels int
}

// piece is memory of the device that a step brings back.
type piece struct {
	at    pointer
	bytes int
}

// Start begins one step. See compute.Overlapping. forward runs by the owner: it must not call the device's methods.
//
// What a step reads from the host lies in one of two pieces of pinned memory, its own until it is waited for, and so does what it brings back. All else
// lies where every step has it: the stream does one after the other.
func (d *Device) Start(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (wait func() ([]sample.Pick, error), err error) {
	var u *under
	var a asked
	err = d.owner.do(func() error {
		if u, a, err = d.beginDraws(forward, draws); err != nil {
			return err
		}
		if u.busy = true; u.done == 0 {
			var s status
			if u.done, s = d.driver.eventCreate(); s != success {
				return d.broken(check(d.driver, s, "cuEventCreate"))
			}
		}
		return d.broken(check(d.driver, d.driver.eventRecord(u.done, d.stream), "cuEventRecord"))
	})
	if err != nil {
		return nil, err
	}
	return func() (picks []sample.Pick, err error) {
		err = d.owner.do(func() error {
			picks, err = d.awaitDraws(u, a)
			return err
		})
		return picks, err
	}, nil
}

// begin sends what record records on its way, and has what it returns brought back.
func (d *Device) begin(record func(s *step) []piece) (*under, error) {
	if err := d.failed(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.under[:], func(u under) bool { return !u.busy })
	if i < 0 {
		return nil, fmt.Errorf("cuda: %d steps are under way; wait for the first", len(d.under))
	}
	d.turn++
	u, s := &d.under[i], &d.step
	s.reset(i)
	pieces := record(s)
	if s.fillIn(); s.err != nil {
		s.forget()
		return nil, s.err
	}
	u.turn, u.kernels, u.bytes = d.turn, len(s.launches), 0
	for _, p := range pieces {
		u.bytes += p.bytes
	}
	host, err := u.output.room(d, u.bytes)
	if err != nil {
		s.forget()
		return nil, err
	}
	if err := d.send(host, pieces); err != nil {
		return nil, d.broken(err)
	}
	return u, nil
}

// send passes a step to the stream: its inputs, its launches, and what it brings back.
func (d *Device) send(host []byte, pieces []piece) error {
	s := &d.step
	for _, in := range []*inputs{&s.inputs, &s.fills} {
		if err := in.send(d); err != nil {
			return err
		}
	}
	for _, m := range s.moves {
		if err := check(d.driver, d.driver.copyWithin(m.to, m.from, m.bytes, d.stream), "cuMemcpyDtoDAsync(%d bytes)", m.bytes); err != nil {
			return err
		}
	}
	if err := d.issue(s.launches); err != nil {
		return err
	}
	for _, p := range pieces {
		if p.bytes == 0 {
			continue
		}
		if err := check(d.driver, d.driver.copyOut(unsafe.Pointer(&host[0]), p.at, p.bytes, d.stream), "cuMemcpyDtoHAsync(%d bytes)", p.bytes); err != nil {
			return err
		}
		host = host[p.bytes:]
	}
	return nil
}

// await waits for a step, and returns what it brought back, valid until the next but one has begun.
func (d *Device) await(u *under) ([]byte, error) {
	u.busy = false
	s := success
	if u.turn == d.turn {
		s = d.driver.streamSynchronize(d.stream)
	} else { // and not for what has begun since
		s = d.driver.eventSynchronize(u.done)
	}
	if err := check(d.driver, s, "cuStreamSynchronize"); err != nil {
		return nil, d.broken(fmt.Errorf("%w: in a step of %d kernels", err, u.kernels))
	}
	return u.output.data[:u.bytes], nil
}

package compute

import (
	"errors"
	"fmt"

	"memra/gguf"
	"memra/sample"
)

// ErrMemory is wrapped by errors about memory that a device does not have. They harm nothing: smaller wishes may follow.
var ErrMemory = errors.New("out of memory")

// Device is a backend: memory, and a step at a time.
//
// Its methods may be called by one goroutine at a time, but for Pack, PackExperts and Vector, which are safe to call side by side.
type Device interface {
	// Name says what computes, for people: "cpu (AVX-512 VNNI, 2 threads)".
	Name() string

	// Class names the device's numeric class: "cpu", "cuda". Devices of one class give the same bits.
	Class() string

	// Step is how many rows a step may have before more of them bring nothing: what long prompts are cut into.
	Step() int

	// Padded is how many rows a step of so many had best have: padding fills it up (Batch.Pad). A device that prepares for each shape of a
	// step says the same for neighbours (RoundedRows), another one n.
	Padded(n int) int

	// Memory is what Pack, NewKV and steps take from.
	Memory() (Memory, error)

	// ReadBandwidth measures how fast the device reads memory that no cache holds, in bytes a second.
	ReadBandwidth() (float64, error)

	// Kernels is how many kernels the last step launched; 0 for a device whose steps are not made of such.
	Kernels() int

	// Pack makes a weight [rows, width] from tensor data in a file's format. The data is not kept; done, if not nil, hears
	// which bytes of it have been read for good, from several goroutines. An error names the formats that the device takes.
	Pack(format gguf.Type, rows, width int, data []byte, done func(from, to int)) (Weight, error)

	// PackExperts makes a weight [experts, rows, width]: each expert's matrix is what Pack would make of it. expert returns the
	// data of one, and what hears that it has been read for good (nil: nobody); it may be called from several goroutines, once for
	// each expert, in any order.
	PackExperts(format gguf.Type, experts, rows, width int, expert func(e int) (data []byte, done func(), err error)) (Weight, error)

	// Vector makes a float32 vector. The values are not kept.
	Vector(values []float32) Vector

	// NewKV makes room for pages of a shape.
	NewKV(shape KVShape, pages int) (KVMemory, error)

	// NewDelta makes room for pages of a delta-net's shape, whose format must be DeltaFormat's.
	NewDelta(shape DeltaShape, pages int) (DeltaMemory, error)

	// DeltaFormat is how the device stores delta-nets.
	DeltaFormat() DeltaFormat

	// NewRows makes room for rows of activations that outlive a step.
	NewRows(rows, width int) (RowMemory, error)

	// NewChoice makes room for so many rows of a weight, of which it has none yet. ErrNoChoice: the device cannot choose from this weight.
	NewChoice(w Weight, places int) (Choice, error)

	// Run computes one step: it calls forward with the device's operations and returns the rows of the tensor that
	// forward returns, valid until the next Run. A fault of the device comes back here.
	Run(forward func(Ops) Tensor) ([][]float32, error)

	// Sample computes one step as Run does, takes the rows that forward returns for logits, and answers one draw of each, in
	// their order, without bringing them back. The tokens, and the bits of their log-probabilities, are those that
	// sample.Sampler.Draw gives for the same logits; a row that gives no token says so in its Pick. Draws
	// that CheckDraws refuses are an error.
	Sample(forward func(Ops) Tensor, draws []sample.Draw) ([]sample.Pick, error)

	// Close frees everything the device holds.
	Close() error
}

// Overlapping is a device that takes a step in while the one before still runs, so that it need not wait for the host between the two. A device
// that computes on the processors of the host has no use for that.
type Overlapping interface {
	Device

	// Start begins a step like Sample's behind what was begun before, and returns without having waited for it. Tokens of its batches may be Drawn.
	// wait returns what Sample would, and is called once, of steps in their order; a step is waited for before the next but one is begun. Whatever else
	// the device is asked for comes after the steps that it has begun.
	//
	// An error of Start says that nothing was begun. An error of wait is a fault, after which the device computes nothing right.
	Start(forward func(Ops) Tensor, draws []sample.Draw) (wait func() ([]sample.Pick, error), err error)
}

// Start begins a step where the device is Overlapping. Any other computes it at once; wait then returns what came of it.
func Start(d Device, forward func(Ops) Tensor, draws []sample.Draw) (wait func() ([]sample.Pick, error), err error) {
	if o, ok := d.(Overlapping); ok {
		return o.Start(forward, draws)
	}
	picks, err := d.Sample(forward, draws)
	return func() ([]sample.Pick, error) { return picks, nil }, err
}

// CheckDraws reports the first draw that rows of logits could not answer.
func CheckDraws(draws []sample.Draw, logits Tensor) error {
	if len(draws) != logits.Rows {
		return fmt.Errorf("compute: %d draws from %d rows of logits, want one of each", len(draws), logits.Rows)
	}
	for i, d := range draws {
		if err := d.Check(logits.Width); err != nil {
			return fmt.Errorf("compute: draw %d: %w", i, err)
		}
	}
	return nil
}

// Memory is a device's memory, in bytes.
type Memory struct {
	Free, Total int  // now, for any process, and in all; both 0: not known
	Lazy        bool // what is reserved is taken piece by piece, as it is written: reserving more than is free may do no harm
}

// ErrNoChoice is wrapped by NewChoice's error for a weight whose form the device cannot choose from.
var ErrNoChoice = errors.New("rows of this weight cannot be chosen")

// Choice is some rows of a weight once more, beside each other, so that a matmul by those alone reads no others (Ops.Choose, MatMulChosen).
type Choice interface {
	// Places is how many rows there is room for.
	Places() int
	// Close frees the memory.
	Close() error
}

// RowMemory is rows of activations, [Rows, Width], that a step leaves to later ones (Ops.Keep).
type RowMemory interface {
	Rows() int
	Width() int
	// Close frees the memory.
	Close() error
}

package spec

import (
	"memra/compute"
	"memra/sample"
	"memra/state"
)

// Drafter guesses tokens for the sequences of one model. It belongs to the goroutine that computes.
type Drafter interface {
	// Kind names it, as flags do: "lookup", "mtp", "draft".
	Kind() string

	// Begin is what the drafter remembers of a sequence: nothing yet.
	Begin() Memory

	// Forward is the model's Forward of a step, with whatever the drafter takes from it. shares are those of the slots in order.
	Forward(b *compute.Batch, s *state.View, shares []Share) func(ops compute.Ops) compute.Tensor

	// Draft guesses up to Depth tokens for each ask that is given a depth, and appends them to its Drafts. Fewer are no error. The last of an ask may
	// be compute.Drawn, for the step that is begun next.
	Draft(asks []*Ask) error

	// Await puts tokens in the places of those of the last Draft, once the step has been begun. One that could not be guessed stays what it is, which
	// no token equals.
	Await() error

	// Cost is how many seconds it takes to guess a token for each of so many sequences, after so many drafts: 0 for none, and until that is
	// known.
	Cost(depth, sequences int) float64

	// Expected is how many seconds the last Draft was known to take, before it began: 0 where that was not known. What took much longer was held up by others.
	Expected() float64

	// Close gives back what the drafter holds on the device.
	Close() error
}

// Memory is what a drafter remembers of a sequence.
type Memory interface {
	// Sight hears the sequence's tokens, of which all but the last are computed: those that it heard before, and more. It says what guesses
	// could be made of that take time (Drafter.Cost), and what of those that take none: numbers below Sights, or None. Guesses of a kind
	// come true about equally often.
	Sight(tokens []int32) (paid, free int)

	// Fork is the memory of a sequence with the same tokens so far.
	Fork() Memory

	// Free gives back what it holds. It is empty then, and as good as new.
	Free()
}

// None is the sight of a drafter that cannot guess; Sights is how many kinds of guesses are told apart.
const (
	None    = -1
	Sights  = 7
	byModel = Sights - 1 // what a model guesses; those below it are matches in the text, by length
)

// Share is one sequence's part of a step.
type Share struct {
	Memory Memory  // nil: a sequence that is not drafted
	Tokens []int32 // all that the sequence has, given and generated, without drafts; the last may be compute.Drawn
	Row    int     // of the batch, the first of the sequence's, which stand side by side
	From   int     // that row's position
	Rows   int     // how many: those past the tokens are drafts
}

// Ask is what is to be guessed of a sequence.
type Ask struct {
	Sequence *Sequence
	Tokens   []int32                          // what the sequence has; the last is not computed yet
	Most     int                              // drafts that there is room for
	Draw     func(drafts []int32) sample.Draw // how the token after these drafts will be drawn
	Blind    bool                             // by how many they are, and not by which

	Depth  int     // drafts that are wanted: the Speculator's choice
	Free   bool    // of those that take no time
	Drafts []int32 // the guesses
}

// memory is what the drafter remembers of the ask's sequence.
func (a *Ask) memory() Memory { return a.Sequence.memory }

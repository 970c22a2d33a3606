package engine

import (
	"slices"
	"testing"

	"memra/gguf"
	"memra/internal/tiny"
)

func TestWhatIsComputedAsideHasRoomAndChangesNoAnswer(t *testing.T) {
	small := sizes{rows: 64, asking: 64, sequences: 2, positions: 320, slots: 2}
	d := processor(t, 1)
	r := Request{Tokens: make([]int32, 150), Limit: 90}
	read := func(a *Answer, aside func()) (tokens []int32) {
		for {
			e, err := a.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if e.Done != nil {
				return tokens
			}
			if tokens = append(tokens, e.Token); len(tokens) == 2 && aside != nil {
				aside()
			}
		}
	}
	e := open(t, d, tiny.Qwen35(1, gguf.Q8_0), small)
	want := read(submit(t, e, r), nil)
	aside := func() {
		err := e.Aside(300, func() error {
			s := e.config.Pool.NewSequence()
			defer s.Free()
			for range 5 {
				if err := s.Extend(60); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for range 20 { // on a busy machine the answer may be over before its second token is read
		a := submit(t, e, r)
		if got := read(a, aside); !slices.Equal(got, want) {
			t.Errorf("it says %v, want %v", got, want)
		}
		if a.Usage(0).Preempted > 0 {
			return
		}
	}
	t.Error("never preempted")
}

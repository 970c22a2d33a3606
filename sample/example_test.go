package sample_test

import (
	"fmt"

	"memra/sample"
)

func ExampleSampler_Draw() {
	row := []float32{0.5, 2.5, 1.0, 2.0} // logits of a vocabulary of four
	d := sample.Draw{Params: sample.Params{Temperature: 0.8, TopK: 3, Seed: 42}}
	if err := d.Check(len(row)); err != nil {
		panic(err)
	}
	var s sample.Sampler
	for d.Position = range 5 {
		pick := s.Draw(row, d)
		if pick.Err != nil {
			panic(pick.Err)
		}
		fmt.Print(pick.Token, " ")
	}
	// Output: 2 1 3 1 1
}

func ExampleLogProbs() {
	d, err := sample.LogProbs([]float32{0.5, 2.5, 1.0, 2.0})
	if err != nil {
		panic(err)
	}
	for _, t := range d.Top(2) {
		fmt.Printf("token %d: %.4f\n", t.Token, t.LogProb)
	}
	// Output:
	// token 1: -0.6755
	// token 3: -1.1755
}

func ExampleStopper() {
	s, err := sample.NewStopper("<|im_end|>")
	if err != nil {
		panic(err)
	}
	for _, piece := range []string{"Hello", " <", "3 <|im", "_end|>", "more"} {
		text, stopped := s.Feed(piece)
		fmt.Printf("%q %v\n", text, stopped)
	}
	// Output:
	// "Hello" false
	// " " false
	// "<3 " false
	// "" true
	// "" true
}

func ExampleHistory() {
	h, err := sample.NewHistory(sample.Params{RepeatPenalty: 2, Bias: map[int32]float32{0: -1}}, 4)
	if err != nil {
		panic(err)
	}
	var s sample.Sampler
	row := []float32{3, 2.5, 2, 1} // the model says the same each time
	h.Append(3)                    // the prompt
	for range 4 {
		pick := s.Draw(row, h.Draw())
		fmt.Print(pick.Token, " ")
		h.Append(pick.Token)
	}
	// Output: 1 0 2 1
}

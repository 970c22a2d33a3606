package memra_test

import (
	"context"
	"fmt"

	"memra"
)

// say prints an answer as it comes.
func say(answer func(yield func(memra.Chunk, error) bool)) {
	for chunk, err := range answer {
		if err != nil {
			panic(err)
		}
		fmt.Print(chunk.Text)
	}
	fmt.Println()
}

// open opens the built-in model, which completes Go code.
func open() *memra.Model {
	m, err := memra.Open(memra.Builtin, memra.Options{Device: "cpu"})
	if err != nil {
		panic(err)
	}
	return m
}

func ExampleModel_Generate() {
	m := open()
	defer m.Close()
	say(m.Generate(context.Background(), memra.Request{
		Prompt:    "package main\n\nfunc add(a, b int) int {\n\treturn",
		MaxTokens: 16,
		Stop:      []string{"\n"},
	}))
	// Output: a + b
}

// A session goes on where it is, a fork goes its own way from there, and a rewind takes back what came after.
func ExampleSession() {
	m := open()
	defer m.Close()
	ctx := context.Background()

	s := m.Session()
	say(s.Generate(ctx, memra.Request{Prompt: "package main\n\nfunc add(a, b int) int {\n\treturn", MaxTokens: 3}))
	here := len(s.Tokens())

	fork := s.Fork()
	say(fork.Generate(ctx, memra.Request{Prompt: "\n}\n\nfunc main() {\n\tfmt.Println(\"", MaxTokens: 8, Stop: []string{"\n"}}))
	say(s.Generate(ctx, memra.Request{Prompt: "\n}\n\nfunc main() {\n\tfor i := 0; i <", MaxTokens: 8, Stop: []string{"\n"}}))
	if err := s.Rewind(here); err != nil {
		panic(err)
	}
	fmt.Println(len(s.Tokens()) < len(fork.Tokens()))
	// Output:
	//  a + b
	// Hello, world!")
	//  10; i++ {
	// true
}

// Scoring a text gives bit for bit what generating it gave.
func ExampleModel_Score() {
	m := open()
	defer m.Close()
	ctx := context.Background()

	tokens := m.Tokenize("package main\n\nfunc add(a, b int) int {\n\treturn")
	given := len(tokens)
	var said []memra.Token
	for chunk, err := range m.Generate(ctx, memra.Request{Tokens: tokens, MaxTokens: 3, LogProbs: true}) {
		if err != nil {
			panic(err)
		}
		if chunk.Token != nil {
			said = append(said, *chunk.Token)
			tokens = append(tokens, chunk.Token.ID)
		}
	}
	scored, err := m.Score(ctx, tokens, 0)
	if err != nil {
		panic(err)
	}
	for i, token := range said {
		fmt.Printf("%q %.4f %v\n", m.Piece(token.ID), token.LogProb, scored[given+i].LogProb == token.LogProb)
	}
	// Output:
	// " a" -1.1620 true
	// " +" -0.6726 true
	// " b" -0.0656 true
}

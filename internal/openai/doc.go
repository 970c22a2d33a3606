// Package openai is the API whose shape everybody's clients speak, as far as this module serves it: what a body may say, what an
// answer looks like, and how an error is told.
//
//	r, err := openai.Decode(openai.Chat, body, openai.Defaults(openai.Chat))
//	if err != nil {
//		return err // an *Error, which names the field
//	}
//	completion, err := r.Answer(ctx, model, id)
//
// Decoding is strict. A field that is unknown, comes twice, has another type than it should, is out of its range, or asks for what the
// module cannot do, is refused by name; none is ignored but those that could not change an answer (user, metadata and the like). A
// field that is null is as good as absent.
//
// Beside OpenAI's fields there are those of vLLM and llama.cpp for what package sample has beyond it (top_k, min_p, repetition_penalty, dry_multiplier
// and others). A Batch answers the lines of a batch file.
package openai

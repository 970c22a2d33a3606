// Package engine computes many requests on one device: tokens in, tokens out, no text.
//
//	e := engine.New(engine.Config{Device: device, Model: m, Pool: pool, Rows: 256, Asking: 64, Sequences: 16, Context: 4096})
//	defer e.Close()
//	answer, err := e.Submit(ctx, engine.Request{Tokens: prompt, Limit: 100, Draw: sample.Draw{LogProb: true}})
//	for {
//		event, err := answer.Next(ctx) // io.EOF after the last
//	}
//
// A sequence is its tokens, given and generated alike, and a state that has computed the first of them. The only thing that is ever
// done is to compute rows that are missing: of a new prompt, of the token drawn last, or, after a preemption, of all tokens again. Rows
// ask (sequence.draw) for the token that follows, or for what they say of a given one; a drafted token is one more row that asks.
//
// One goroutine (Engine.work) owns the device. Between two steps it hears new requests and cancellations, has the scheduler plan the
// next step, and tells the answers what came of the last. The scheduler is a plain state machine: testdata has its stories.
//
//	admit      sequences that wait get a slot and a state, if the pages that all who run will soon need are there (admit.go)
//	apportion  rows: what decodes, then prompts, as many as slow the others down by no more than 1.4 times (scheduler.go, cost.go)
//	reserve    pages for them, oldest first: from the pool, from the prefixes, from the youngest sequence, which is preempted (admit.go)
//	pack       the batch, and the draws
//	apply      the picks: tokens are appended, drafts kept as far as they were drawn, ends recognised (sequence.take)
//
// What always holds: which requests run beside one, how its prompt is cut, whether it is preempted and what is drafted for it changes
// when its tokens come and never which (docs/contract.md). A request that can never fit is refused by Submit; one that was taken in
// gets its answer. A row that gives no token fails its request alone. A step that fails is tried again, sequence by sequence, and
// those fail whose rows do.
//
// # Steps that overlap
//
// A device with a queue (compute.Overlapping) has the next step before it ends the one that runs (flight.go): scheduler.ahead makes it of the one
// before, without plan, where that is known: a row more of each sequence that decodes, of tokens that only the device has yet (ahead.go). hear then finds
// the state a row ahead of the tokens (sequence.ahead). Whatever comes from outside waits until nothing is under way (read, land).
//
// # Where the cache and the drafters come in
//
// Sequences begin, and resume, with what the tree of prefixes has of their tokens (prefix.go). They offer it their pages after every
// step and when they end, are cancelled or preempted; where the pool has no other page left, it gives up those that nobody uses.
// scheduler.cut is where a chunk ends so that a state can be kept there.
//
// A spec.Speculator puts guesses into sequence.drafts of those that decode (sequence.decodes), between apply and plan (draft.go). apportion
// cuts them to what has room, reserve drops them where pages lack, pack makes rows of them, take compares, hear truncates what was not
// drawn. They are gone after the step. What it takes from a step, it takes in forward.
package engine

// Package check proves on a device that it computes what it should:
//
//	err := check.Run(ctx, device, check.Options{Seed: 1}, func(r check.Result) { fmt.Println(r) })
//
// Every operation on fresh random inputs, against float64, to the tolerance that the device's class states (tolerance.go); a
// row's bits alone and in company (same.go); whole models by random schedules (schedule.go); graphs against single launches, and
// assembly against plain Go, where the device has such; real model files against the oracle's goldens (golden.go).
//
// Inputs reach a device as rows of float32 embeddings, so a check needs nothing but compute.Device and compute.Ops, and the same
// checks serve every backend. `memra check` and tests run them.
package check

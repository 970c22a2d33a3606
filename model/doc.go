// Package model holds the families: each one readable file that says what a family's weights are called and what its
// Forward computes.
//
// Open binds a model file to a device: it finds the family by name, fills its configuration from metadata, checks every
// tensor's name and shape at once, and packs the weights in parallel.
//
//	m, err := model.Open(source, device)
//	pool, err := state.NewPool(device, m.State(), state.Config{...})
//	logits, err := device.Run(func(ops compute.Ops) compute.Tensor { return m.Forward(ops, batch, view) })
//
// To add a family, read docs/adding-a-model.md; llama.go is the shortest example.
package model

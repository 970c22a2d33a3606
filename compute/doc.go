// Package compute is the operation set: what a model family may ask of a device, and what each answer means.
//
// A family's Forward is a sequence of operations ([Ops]) over the rows of a [Batch]. Package compute/cpu implements them for
// any CPU, compute/cuda for NVIDIA GPUs. A backend implements every operation; a family never learns which one runs.
//
// What always holds (rules R1 to R3 of docs/contract.md): an operation computes each row by a fixed sequence of
// floating-point operations that depends on the widths and on absolute positions alone. No other row, no number of rows, no
// number of threads, no choice of kernel changes a bit of it.
//
// Each backend is one numeric class: its formulas round in stated places. The formulas here are the mathematics; the
// class's package page states orders and roundings.
package compute

// Package synthetic makes models of well-known shapes with random weights, for benchmarks without a file:
//
//	src, err := synthetic.New("Llama-3.1-8B", "Q4_K_M")   // a model.Source
//	m, err := model.Open(src, device)                      // the binder and Forward that files go through
//
// Every tensor of a format shows a part of one array of random blocks, which is as large as the format's largest tensor: the
// device gets all bytes that a file would have, and the host holds a few hundred megabytes.
package synthetic

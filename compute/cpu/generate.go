package cpu

// The assembly is written in Go, by the programs below gen, a module of its own so that memra depends on no assembler.

//go:generate go -C gen run ./vector -out ../vector_amd64.s -stubs ../vector_amd64.go -pkg cpu
//go:generate go -C gen run ./dot -out ../dot_amd64.s -stubs ../dot_stubs_amd64.go -check ../dot_offsets_amd64.go -pkg cpu

// program_32: instructions of a step whose operands have tiles of 32 rows: program.cuh says how.
//
// Needs    all blocks at once (a cooperative launch); counter zero, as it is left.
// Launch   grid multiprocessors*2, block 320, shared stages*stage bytes.
// Targets  sm_90a
#include "program.cuh"

PROGRAM(32, 2)

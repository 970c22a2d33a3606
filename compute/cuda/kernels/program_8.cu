// program_8_DIM: instructions of a step whose operands have tiles of 8 rows and whose heads are DIM wide: program.cuh says how.
//
// Needs    all blocks at once (a cooperative launch); counter zero, as it is left.
// Launch   grid multiprocessors, block 384, shared pages*page + 8*strips*strip bytes, 16 KiB of sums beside them.
// Targets  sm_90a
#include "program.cuh"

PROGRAM(8, 64)
PROGRAM(8, 128)
PROGRAM(8, 256)

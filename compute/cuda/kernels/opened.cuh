// A value as far as a gate opens.
#pragma once
#include "common.cuh"

// SHORT is how a function is compiled that programs call in many places: what they execute once a layer has to come for that each time, so it is short.
#ifndef SHORT
#define SHORT __forceinline__
#endif

// opened is v * sigmoid(gate), as v / (1 + e^-gate).
__device__ SHORT float opened(float v, float gate) { return __fdiv_rn(v, __fadd_rn(1.f, exp_(-gate))); }

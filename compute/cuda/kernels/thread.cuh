// Which thread this is, and of which block, as something that the compiler cannot know from one use to the next: else it keeps what follows from
// it for everything in a long loop in registers, and there are none left.
#pragma once

__device__ __forceinline__ int thread() {
    int t;
    asm volatile("mov.u32 %0,%%tid.x;" : "=r"(t));
    return t;
}
__device__ __forceinline__ int this_block() {
    int b;
    asm volatile("mov.u32 %0,%%ctaid.x;" : "=r"(b));
    return b;
}

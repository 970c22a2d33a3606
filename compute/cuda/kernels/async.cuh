// Copies of a few bytes each into shared memory that a thread does not wait for: every GPU has them.
#pragma once
#include "bulk.cuh"

// copy_16 and copy_4 bring so many bytes to shared memory; they are there after copied().
__device__ __forceinline__ void copy_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_4(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0],[%1],4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// copies_end ends a group of a thread's copies, and copies_wait waits for all its groups but the last N.
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Bulk copies into shared memory and the barriers that they complete on: Hopper and later.
#pragma once
#include "common.cuh"

__device__ __forceinline__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// A barrier's phase ends when `count` threads have arrived and the bytes that they announced have come.
__device__ __forceinline__ void barrier_init(uint64_t* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}

// barriers_ready makes initialised barriers known to copies; a __syncthreads must follow.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }

__device__ __forceinline__ void barrier_arrive(uint32_t b) { asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(b) : "memory"); }
__device__ __forceinline__ void barrier_arrive(uint64_t* b) { barrier_arrive(shared_address(b)); }

__device__ __forceinline__ void barrier_expect(uint64_t* b, int bytes) { // arrives, too
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}

// barrier_wait waits for the end of the phase of this parity: 0 for the first, third, ..
__device__ __forceinline__ void barrier_wait(uint32_t b, int parity) {
    asm volatile(
        "{.reg .pred P;\n"
        "wait: mbarrier.try_wait.parity.shared::cta.b64 P,[%0],%1;\n"
        "@P bra done;\n"
        "bra wait;\n"
        "done: }" ::"r"(b), "r"(parity) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t* b, int parity) { barrier_wait(shared_address(b), parity); }

// barrier_passed asks the same and does not wait.
__device__ __forceinline__ bool barrier_passed(uint64_t* b, int parity) {
    uint32_t passed;
    asm volatile("{.reg .pred P;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 P,[%1],%2;\n"
                 "selp.u32 %0,1,0,P; }" : "=r"(passed) : "r"(shared_address(b)), "r"(parity) : "memory");
    return passed;
}

// bulk_copy brings consecutive bytes, a multiple of 16, and tells the barrier.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, int bytes, uint64_t* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes), "r"(shared_address(b)) : "memory");
}

// bulk_copy_once is the same for bytes that this step reads once: they leave the L2 cache before others do.
__device__ __forceinline__ void bulk_copy_once(void* to, const void* from, int bytes, uint64_t* b) {
    uint64_t first;
    asm("createpolicy.fractional.L2::evict_first.b64 %0,1.0;" : "=l"(first));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0],[%1],%2,[%3],%4;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(b)), "l"(first) : "memory");
}

// bulk_prefetch brings them to the L2 cache.
__device__ __forceinline__ void bulk_prefetch(const void* from, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0],%1;" ::"l"(from), "r"(bytes) : "memory");
}

// start() of common.cuh in two: what lies between them may read what no kernel of the step writes.
__device__ __forceinline__ void launch_next() { asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory"); }
__device__ __forceinline__ void wait_for_earlier() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }

// copies_see_writes lets this thread's bulk copies see what it knows to have been written by ordinary stores.
__device__ __forceinline__ void copies_see_writes() { asm volatile("fence.proxy.async;\n" ::: "memory"); }

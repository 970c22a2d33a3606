// Queries are the A operands of a tile's scores: 16 (row, head) pairs of D values, in f16. Four warps need the same ones. They stay in
// registers; where heads are so wide that outputs fill those, in shared memory.
#pragma once
#include "common.cuh"

template <int D, bool SHARED = (D > 256)>
struct Queries {
    static constexpr int ROOM = 1; // of shared memory, in uint4
    uint32_t a[D / 16][4];
    __device__ Queries(uint4*) {}

    // load takes query(i, d): values d and d+1 of pair lane/4 + 8*i.
    template <class Query>
    __device__ void load(int w, int lane, Query query) {
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            a[j][0] = query(0, 16 * j + 2 * (lane % 4)), a[j][1] = query(1, 16 * j + 2 * (lane % 4));
            a[j][2] = query(0, 16 * j + 8 + 2 * (lane % 4)), a[j][3] = query(1, 16 * j + 8 + 2 * (lane % 4));
        }
    }

    // get is link j of the scores.
    __device__ void get(uint32_t (&f)[4], int j, int lane) const {
#pragma unroll
        for (int i = 0; i < 4; i++) f[i] = a[j][i];
    }
};

// In shared memory every warp loads a quarter: the four meet between load and get.
template <int D>
struct Queries<D, true> {
    static constexpr int ROOM = D / 16 * 32;
    uint4* a;
    __device__ Queries(uint4* room) : a(room) {}

    template <class Query>
    __device__ void load(int w, int lane, Query query) {
        for (int j = w; j < D / 16; j += 4) {
            int d = 16 * j + 2 * (lane % 4);
            a[j * 32 + lane] = make_uint4(query(0, d), query(1, d), query(0, d + 8), query(1, d + 8));
        }
    }

    __device__ void get(uint32_t (&f)[4], int j, int lane) const {
        uint4 v = a[j * 32 + lane];
        f[0] = v.x, f[1] = v.y, f[2] = v.z, f[3] = v.w;
    }
};

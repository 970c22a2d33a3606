// How a matmul is cut among the blocks of a launch.
//
// y is tiles, a tile is its segments of K in order. A launch has tiles*segments units, each a segment of a tile. Where tiles are few
// each block takes an equal share of consecutive units, so blocks share tiles:
//
//     units    0 1 2 3 4 5 6 7│0 1 2 3 4 5 6 7│0 1 2 3 4 5 6 7      three tiles of eight segments
//     blocks   '--- 0 ---' '--- 1 ---' '--- 2 ---' '--- 3 ---'
//
// Where they are many a block takes every P-th tile, whole. Neither decides anything about the sums: a segment is summed by one
// block, and the segments of a tile are added ascending, whoever computed them.
#pragma once
#include "common.cuh"

struct Cut {
    int tiles, segments, blocks, block; // block: this one
    bool whole;

    // In 32 bits: matmul.go refuses what does not fit.
    __device__ int begin(int block) const { return (uint32_t)(block * tiles * segments) / (uint32_t)blocks; }
    __device__ int block_of(int unit) const { return (uint32_t)((unit + 1) * blocks - 1) / (uint32_t)(tiles * segments); }
    // place numbers the shared tiles: by the tile or by the block that begins it, whichever are fewer.
    __device__ int place(int tile) const { return tiles <= blocks ? tile : block_of(tile * segments); }
};

// Runs are what a block does in order: segments [from, to) of a tile. The end of a tile that an earlier block begins comes last:
// the earlier block does its part before.
struct Runs {
    const Cut& cut;
    int unit, end, first, late; // `late` units from `first` on come last
    int tile, from, to;         // the run

    __device__ Runs(const Cut& c) : cut(c), late(0) {
        if (c.whole) {
            unit = c.block * c.segments, end = c.tiles * c.segments;
            return;
        }
        first = c.begin(c.block), end = c.begin(c.block + 1);
        int into = first % c.segments;
        if (into) late = min(end - first, c.segments - into);
        unit = first + late;
    }
    __device__ bool next() {
        int u = unit, n = min(cut.segments, end - u);
        if (u < end) unit += cut.whole ? cut.blocks * cut.segments : n;
        else if (late) u = first, n = late, late = 0;
        else return false;
        tile = u / cut.segments, from = u - tile * cut.segments, to = from + n;
        return true;
    }
};

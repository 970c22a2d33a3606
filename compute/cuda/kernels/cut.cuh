// How a matmul is cut among the blocks of a launch.
//
// y is tiles, a tile is its segments of K in order. A launch has tiles*segments units, each a segment of a tile. Where tiles are few
// each block takes an equal share of consecutive units, so blocks share tiles:
//
//     units    0 1 2 3 4 5 6 7│0 1 2 3 4 5 6 7│0 1 2 3 4 5 6 7      three tiles of eight segments
//     blocks   '--- 0 ---' '--- 1 ---' '--- 2 ---' '--- 3 ---'
//
// Where they are many the first `whole` go to the blocks in turn, all of their segments, and only the rest is shared. Neither decides
// anything about the sums: a segment is summed by one block, and the segments of a tile are added ascending, whoever computed them.
#pragma once
#include "common.cuh"

struct Cut {
    int tiles, segments, blocks, block; // block: this one
    int whole;

    // Units are those of the tiles behind the whole ones, sharers the blocks that have any. In 32 bits: matmul.go refuses what does not fit.
    __device__ int units() const { return (tiles - whole) * segments; }
    __device__ int sharers() const { return min(blocks, units()); }
    __device__ int begin(int block) const { return block < sharers() ? (uint32_t)(block * units()) / (uint32_t)sharers() : units(); }
    __device__ int block_of(int unit) const { return (uint32_t)((unit + 1) * sharers() - 1) / (uint32_t)units(); }
    // place numbers the shared tiles: in order or by the block that begins them, whichever are fewer.
    __device__ int place(int tile) const { return tiles - whole <= blocks ? tile - whole : block_of((tile - whole) * segments); }
};

// Runs are what a block does in order: segments [from, to) of a tile. The end of a tile that an earlier block begins comes last:
// the earlier block does its part before.
struct Runs {
    const Cut& cut;
    int ahead;                  // the next whole tile
    int unit, end, first, late; // `late` units from `first` on come last
    int tile, from, to;         // the run

    __device__ Runs(const Cut& c) : cut(c), ahead(c.block), late(0) {
        first = c.begin(c.block), end = c.begin(c.block + 1);
        int into = first % c.segments;
        if (into) late = min(end - first, c.segments - into);
        unit = first + late;
    }
    __device__ bool next() {
        if (ahead < cut.whole) {
            tile = ahead, from = 0, to = cut.segments, ahead += cut.blocks;
            return true;
        }
        int u = unit, n = min(cut.segments, end - u);
        if (u < end) unit += n;
        else if (late) u = first, n = late, late = 0;
        else return false;
        tile = cut.whole + u / cut.segments, from = u % cut.segments, to = from + n;
        return true;
    }
};

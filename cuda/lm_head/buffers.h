// What lies where in the scratch memory of a call.
#pragma once

#include "plan.h"

namespace lm_head {

// Hands out pieces of the scratch memory; with a null base it only counts.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<unsigned char*>(base)) {}
  template <class T>
  T* take(size_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 255) / 256 * 256;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  unsigned char* base_;
  size_t used_ = 0;
};

inline AdjustIndex takeAdjustIndex(Scratch& scratch, const LmHeadTopKArgs& args) {
  const AdjustOption& adjust = args.options.adjust;
  AdjustIndex index = AdjustIndex::sized(args.vocabSize, adjust.entries);
  index.listed = scratch.take<uint32_t>(adjust.lists * index.words);
  index.slots = scratch.take<AdjustSlot>(adjust.lists * index.slotCount);
  return index;
}

struct Buffers {
  AdjustIndex adjustIndex{};
  RankTargets targets{};
  unsigned char* hidden;
  RowPool pool;
  Key* bounds[2];  // what the sweep before has taken last, and what the present one takes
  Key* lists;
  LogSumExpParams logSumExp;

  Buffers(Scratch& scratch, const Plan& plan) {
    const size_t rows = plan.args.rows;
    if (plan.args.options.adjust.ids != nullptr) adjustIndex = takeAdjustIndex(scratch, plan.args);
    if (plan.args.rank.ids != nullptr) {
      targets.keys = scratch.take<Key>(rows * plan.args.rank.count);
      targets.buckets = scratch.take<int32_t>(rows * plan.args.rank.count);
      targets.count = static_cast<int>(plan.args.rank.count);
    }
    hidden = scratch.take<unsigned char>(plan.variant->hiddenBytes(plan));
    pool.published = scratch.take<Key>(rows * kMaxPoolBlocks);
    pool.thresholds = scratch.take<Key>(rows);
    pool.keys = scratch.take<Key>(rows * plan.poolCapacity);
    pool.counts = scratch.take<int>(rows);
    pool.taken = scratch.take<int>(rows);
    pool.cuts = scratch.take<Key>(rows);
    pool.rescanBounds = scratch.take<Key>(rows);
    pool.blocks = plan.blocks;
    pool.publishedRank = plan.publishedRank;
    pool.capacity = plan.poolCapacity;
    for (Key*& some : bounds) some = plan.args.k > plan.k ? scratch.take<Key>(rows) : nullptr;
    lists = scratch.take<Key>(plan.sharedLists ? 0 : rows * plan.blocks * plan.listCapacity);
    const size_t parts = plan.logSumExp ? rows * plan.blocks : 0;
    logSumExp.termsOfBlock =
        static_cast<int>((plan.tiling.mostIdsOfBlock + plan.shape.tileVocab - 1) / plan.shape.tileVocab) *
        (plan.shape.tileVocab / kGroupIds);
    logSumExp.terms = scratch.take<LogSumTerm>(parts * logSumExp.termsOfBlock);
    logSumExp.sums = scratch.take<LogSum>(parts);
  }
};

// What all sweeps of a plan have in common.
inline SweepParams sweepParams(const Plan& plan, const Buffers& buffers) {
  SweepParams sweep{};
  sweep.args = plan.args;
  sweep.args.options.adjust.index = buffers.adjustIndex;
  sweep.tiling = plan.tiling;
  sweep.rowsPerBlock = plan.shape.rowsPerBlock;
  sweep.topK.keep = plan.keep;
  sweep.topK.listCapacity = plan.listCapacity;
  sweep.topK.listsMayFill = plan.listsMayFill;
  sweep.topK.fewTiles = plan.tiling.tiles <= 2 * plan.blocks;
  sweep.topK.lists = plan.sharedLists ? nullptr : buffers.lists;
  sweep.topK.pool = buffers.pool;
  return sweep;
}

}  // namespace lm_head

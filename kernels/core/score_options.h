// What the options of a call make of its scores. A pointer is null where an option is not wanted; what is given for all
// rows alike has a stride of 0. Ids in here are those that are returned: in a shard they begin at vocabStart.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace lm_head {

// One number a row.
struct RowOption {
  const float* values;
  int64_t stride;  // 1, or 0 where all rows have the same

  LM_HEAD_HOST_DEVICE float of(int64_t row) const { return values[row * stride]; }
};

// What a list says of an id. Dividing by the one, multiplying by it and adding the other changes no float.
struct AdjustSlot {
  int32_t id;     // or kNoId
  int32_t entry;  // of the list
  float repetition;
  float add;

  static constexpr int32_t kNoId = -1;
  static constexpr float kNoRepetition = 1.0f;
  static constexpr float kNoAdd = -0.0f;
};

// Finds what a row's list says of an id: a bit says of most ids that they are not listed, and a hash table with linear
// probing has the others. Of an id that stands in the list several times, the last entry counts.
struct AdjustIndex {
  uint32_t* listed;    // [lists, words]: bits of ids modulo 32 * words
  AdjustSlot* slots;   // [lists, slotCount]
  uint32_t words;      // a power of two
  uint32_t slotCount;  // a power of two, at least twice the number of entries

  // Without memory, for lists of so many entries. Ids have bits of their own, or at least few share the bit of one that
  // is listed.
  static AdjustIndex sized(int64_t vocabSize, int64_t entries) {
    constexpr int64_t kBitsOfEntry = 512;
    AdjustIndex index{nullptr, nullptr, 1, 32};
    while (32 * int64_t{index.words} < vocabSize && 32 * int64_t{index.words} < kBitsOfEntry * entries)
      index.words *= 2;
    while (index.slotCount < 2 * entries) index.slotCount *= 2;
    return index;
  }

  LM_HEAD_HOST_DEVICE uint32_t wordOf(uint32_t id) const { return id / 32 & (words - 1); }
  LM_HEAD_HOST_DEVICE static uint32_t bitOf(uint32_t id) { return 1u << (id % 32); }
  LM_HEAD_HOST_DEVICE uint32_t firstSlot(uint32_t id) const {
    return id * 2654435769u >> 7 & (slotCount - 1);  // Knuth's multiplicative hash
  }
  LM_HEAD_HOST_DEVICE uint32_t slotAfter(uint32_t slot) const { return (slot + 1) & (slotCount - 1); }
};

// Penalties and biases of single ids; -1 pads a list, and ids of other shards are left out.
struct AdjustOption {
  const int32_t* ids;       // [lists, entries]
  const float* add;         // the same shape, or null
  const float* repetition;  // the same shape, or null
  int64_t entries;
  int64_t lists;      // 1, or one a row
  AdjustIndex index;  // made from it before the sweep

  LM_HEAD_HOST_DEVICE int64_t listOf(int64_t row) const { return lists == 1 ? 0 : row; }
  LM_HEAD_HOST_DEVICE AdjustSlot slotOf(int64_t list, int32_t entry) const {
    const int64_t i = list * entries + entry;
    return {ids[i], entry, repetition == nullptr ? AdjustSlot::kNoRepetition : repetition[i],
            add == nullptr ? AdjustSlot::kNoAdd : add[i]};
  }
};

struct ScoreOptions {
  const float* rowBias;  // [rows, vocabSize]; in place of a bias for all rows
  RowOption softCap;     // a cap of +inf is none
  RowOption scale;
  AdjustOption adjust;
  const uint32_t* mask;  // allowed ids: bit b of word w is id 32w + b; [maskStride] words a row
  int64_t maskStride;    // 0 where all rows have the same

  LM_HEAD_HOST_DEVICE bool any() const {
    return rowBias != nullptr || softCap.values != nullptr || scale.values != nullptr || adjust.ids != nullptr ||
           mask != nullptr;
  }

  // Those of rows [begin, begin + rows).
  ScoreOptions ofRows(int64_t begin, int64_t rows, int64_t vocabSize) const {
    ScoreOptions rest = *this;
    if (rowBias != nullptr) rest.rowBias += begin * vocabSize;
    if (softCap.values != nullptr) rest.softCap.values += begin * softCap.stride;
    if (scale.values != nullptr) rest.scale.values += begin * scale.stride;
    if (mask != nullptr) rest.mask += begin * maskStride;
    if (adjust.lists > 1) {
      rest.adjust.lists = rows;
      rest.adjust.ids += begin * adjust.entries;
      if (adjust.add != nullptr) rest.adjust.add += begin * adjust.entries;
      if (adjust.repetition != nullptr) rest.adjust.repetition += begin * adjust.entries;
    }
    return rest;
  }
};

}  // namespace lm_head

// The epilogue: from a sum, as a main loop leaves it, to the score that ranks. Its arithmetic stands here alone, for
// CPU and GPU; each step rounds once, for the bits of binary scores are defined so: never a fused multiply-add.
#pragma once

#include <cmath>
#include <cstdint>

#include "float_math.h"
#include "score_options.h"

namespace lm_head {

// Multiplying by the one and adding the other change no float, not even -0.
constexpr float kNoRowScale = 1.0f;
constexpr float kNoBias = -0.0f;

struct EpilogueParams {
  const float* rowScale;  // [rows], or null; binary: what a quantized row is multiplied by
  const float* bias;      // [vocabSize], or null

  LM_HEAD_HOST_DEVICE float rowScaleOf(int64_t row) const { return rowScale == nullptr ? kNoRowScale : rowScale[row]; }
  LM_HEAD_HOST_DEVICE float biasOf(int64_t id) const { return bias == nullptr ? kNoBias : bias[id]; }
};

// Where row scale and bias are at hand already: a kernel loads them long before the sum is there.
LM_HEAD_HOST_DEVICE inline float finishLoaded(float sum, float rowScale, float bias) {
  return multiplyAddRounded(sum, rowScale, bias);
}

// softCap * tanh(score / softCap).
LM_HEAD_HOST_DEVICE inline float capped(float score, float softCap) {
  const float result = multiplyRounded(tanhRounded(multiplyRounded(score, divideRounded(1.0f, softCap))), softCap);
  return softCap == INFINITY ? score : result;
}

// Whether the row's list may have `id`.
LM_HEAD_HOST_DEVICE inline bool mayBeListed(const AdjustOption& adjust, int64_t row, int32_t id) {
  return (adjust.index.listed[adjust.listOf(row) * adjust.index.words + adjust.index.wordOf(id)] &
          AdjustIndex::bitOf(id)) != 0;
}

// What the row's list says of `id`: repetition r makes score / r of a score above 0 and score * r of others (Keskar et
// al. 2019, "CTRL: A Conditional Transformer Language Model for Controllable Generation"), then `add` is added.
LM_HEAD_HOST_DEVICE inline float adjusted(const AdjustOption& adjust, int64_t row, int32_t id, float score) {
  const AdjustIndex& index = adjust.index;
  const AdjustSlot* slots = index.slots + adjust.listOf(row) * index.slotCount;
  for (uint32_t place = index.firstSlot(id);; place = index.slotAfter(place)) {
    const AdjustSlot slot = slots[place];
    if (slot.id == AdjustSlot::kNoId) return score;
    if (slot.id != id) continue;
    score = score > 0.0f ? divideRounded(score, slot.repetition) : multiplyRounded(score, slot.repetition);
    return addRounded(score, slot.add);
  }
}

// What options make of a score, in the order in which lmHeadTopK documents them. `place`: the id counted from this
// shard's first; `id`: as it is returned.
LM_HEAD_HOST_DEVICE inline float withOptions(const ScoreOptions& options, int64_t row, int64_t vocabSize, int64_t place,
                                             int32_t id, float score) {
  if (options.rowBias != nullptr) score = addRounded(score, options.rowBias[row * vocabSize + place]);
  if (options.softCap.values != nullptr) score = capped(score, options.softCap.of(row));
  if (options.scale.values != nullptr) score = multiplyRounded(score, options.scale.of(row));
  if (options.adjust.ids != nullptr && mayBeListed(options.adjust, row, id)) {
    score = adjusted(options.adjust, row, id, score);
  }
  if (options.mask != nullptr) {
    const uint32_t word = options.mask[row * options.maskStride + static_cast<uint32_t>(id) / 32];
    if ((word >> (static_cast<uint32_t>(id) % 32) & 1) == 0) score = -INFINITY;
  }
  return score;
}

// The score of token `id`, counted from this shard's first, in hidden row `row`, before options.
LM_HEAD_HOST_DEVICE inline float finish(const EpilogueParams& params, int64_t row, int64_t id, float sum) {
  return finishLoaded(sum, params.rowScaleOf(row), params.biasOf(id));
}

}  // namespace lm_head

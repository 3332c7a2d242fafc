// The index of adjusted ids on the CPU: memory for it, and its entries.
#pragma once

#include <algorithm>
#include <vector>

#include "../../core/score_options.h"

namespace lm_head {

class CpuAdjustIndex {
 public:
  CpuAdjustIndex(const AdjustOption& adjust, int64_t vocabStart, int64_t vocabSize) {
    if (adjust.ids == nullptr) return;
    index_ = AdjustIndex::sized(vocabSize, adjust.entries);
    listed_.assign(adjust.lists * index_.words, 0);
    slots_.assign(adjust.lists * index_.slotCount, AdjustSlot{AdjustSlot::kNoId, 0, 0.0f, 0.0f});
    index_.listed = listed_.data();
    index_.slots = slots_.data();
    for (int64_t list = 0; list < adjust.lists; ++list) {
      const int32_t* ids = adjust.ids + list * adjust.entries;
      for (int64_t entry = 0; entry < adjust.entries; ++entry) {
        const int32_t id = ids[entry];
        if (id < vocabStart || id >= vocabStart + vocabSize) continue;
        listed_[list * index_.words + index_.wordOf(id)] |= AdjustIndex::bitOf(id);
        AdjustSlot* slots = slots_.data() + list * index_.slotCount;
        uint32_t slot = index_.firstSlot(id);
        while (slots[slot].id != AdjustSlot::kNoId && slots[slot].id != id) slot = index_.slotAfter(slot);
        slots[slot] = adjust.slotOf(list, static_cast<int32_t>(entry));
      }
    }
  }

  const AdjustIndex& index() const { return index_; }

 private:
  AdjustIndex index_{};
  std::vector<uint32_t> listed_;
  std::vector<AdjustSlot> slots_;
};

}  // namespace lm_head

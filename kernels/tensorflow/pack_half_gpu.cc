#include "../../cuda/pack/pack_half.h"
#include "pack_half.h"
#include "stream.h"

namespace lm_head {

void packHalfGpu(const OpContext& context, const PackHalfArgs& args) {
  checkCuda(launchPackHalf(args, streamOf(context)), "PackHalf");
}

}  // namespace lm_head

#include "../../cuda/pack/pack_binary.h"
#include "pack_binary.h"
#include "stream.h"

namespace lm_head {

void packBinaryGpu(const OpContext& context, const PackBinaryArgs& args) {
  checkCuda(launchPackBinary(args, streamOf(context)), "PackBinary");
}

void unpackBinaryGpu(const OpContext& context, const UnpackBinaryArgs& args) {
  checkCuda(launchUnpackBinary(args, streamOf(context)), "UnpackBinary");
}

}  // namespace lm_head

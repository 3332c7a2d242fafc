#include "../../cuda/pack/binarize_head.h"
#include "binarize_head.h"
#include "stream.h"

namespace lm_head {

void binarizeHeadGpu(const OpContext& context, const BinarizeHeadArgs& args) {
  checkCuda(launchBinarizeHead(args, streamOf(context)), "BinarizeHead");
}

}  // namespace lm_head

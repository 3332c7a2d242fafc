// PackHalf as a TensorFlow op: float32 [rows, columns] to 16-bit pairs, int32 [rows, words].
#include "ops.h"
#include "pack_half.h"

namespace lm_head {
namespace {

class PackHalfKernel {
 public:
  explicit PackHalfKernel(const OpAttributes& attributes)
      : transpose_(attributes.boolean("transpose")), multipleOf_(attributes.integer("multiple_of")) {
    const std::string format = attributes.string("format");
    require(format == "bfloat16" || format == "float16",
            [&] { return "PackHalf: attribute 'format' must be bfloat16 or float16, but got " + format; });
    require(multipleOf_ > 0 && multipleOf_ % 2 == 0, [&] {
      return "PackHalf: attribute 'multiple_of' must be even and positive, but got " + std::to_string(multipleOf_);
    });
    bfloat16_ = format == "bfloat16";
  }

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor x = context.input(0);
    require(x.rank() == 2, [&] { return "PackHalf: input 'x' must have rank 2, but got shape " + x.shape(); });
    PackHalfArgs args{};
    args.bfloat16 = bfloat16_;
    args.rows = x.dim(transpose_ ? 1 : 0);
    args.columns = x.dim(transpose_ ? 0 : 1);
    args.rowStride = transpose_ ? 1 : args.columns;
    args.columnStride = transpose_ ? args.rows : 1;
    args.paddedColumns = (args.columns + multipleOf_ - 1) / multipleOf_ * multipleOf_;
    const Tensor packed = context.output(0, TF_INT32, {args.rows, args.paddedColumns / 2});
    if (packed.size() == 0) return;
    args.x = x.data<const float>();
    args.packed = packed.data<uint16_t>();
    if constexpr (kDevice == Device::kGpu) {
      packHalfGpu(context, args);
    } else {
      packHalfCpu(args);
    }
  }

 private:
  bool bfloat16_;
  bool transpose_;
  int64_t multipleOf_;
};

}  // namespace

void registerPackHalf() {
  defineOp("PackHalf", {"x: float"}, {"packed: int32"},
           {"format: string", "transpose: bool = false", "multiple_of: int = 2"});
  registerKernel<PackHalfKernel>("PackHalf");
}

}  // namespace lm_head

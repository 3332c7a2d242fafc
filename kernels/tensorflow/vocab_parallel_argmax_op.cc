// LocalArgmaxCandidates, PickFromCandidates, and VocabParallelArgmax, which is both for shards that lie in one process.
// VocabParallelArgmaxHost is the last with its output in host memory, filled when it returns.
#include <algorithm>
#include <memory>

#include "host_results.h"
#include "ops.h"
#include "vocab_parallel_argmax.h"

namespace lm_head {
namespace {

constexpr int64_t kPairInts = 2 * kArgmaxSlices;

LogitsType logitsType(TF_DataType type) {
  if (type == TF_BFLOAT16) return LogitsType::kBfloat16;
  return type == TF_HALF ? LogitsType::kFloat16 : LogitsType::kFloat32;
}

// What both scanning ops are told about logits.
struct LogitsAttributes {
  LogitsAttributes(const OpAttributes& attributes, const std::string& op)
      : vocabStart(attributes.integer("vocab_start")),
        vocabSize(attributes.integer("vocab_size")),
        columnMajor(attributes.boolean("column_major")),
        type(logitsType(attributes.type("T"))) {
    require(vocabSize >= 0,
            [&] { return op + ": attribute 'vocab_size' must be at least 0, but got " + std::to_string(vocabSize); });
    require(vocabStart >= 0 && vocabStart <= INT32_MAX - vocabSize, [&] {
      return op + ": attribute 'vocab_start' must be at least 0 and keep ids below 2^31 - 1, but got " +
             std::to_string(vocabStart);
    });
  }

  int64_t rows(const Tensor& logits) const { return logits.dim(columnMajor ? 1 : 0); }
  int64_t columns(const Tensor& logits) const { return logits.dim(columnMajor ? 0 : 1); }

  LocalArgmaxArgs args(const Tensor& logits, int64_t firstId, int64_t realColumns, int32_t* candidates) const {
    LocalArgmaxArgs args{};
    args.type = type;
    args.logits = logits.data<const void>();
    args.rows = rows(logits);
    args.vocabSize = realColumns;
    args.rowStride = columnMajor ? 1 : columns(logits);
    args.columnStride = columnMajor ? args.rows : 1;
    args.vocabStart = firstId;
    args.candidates = candidates;
    return args;
  }

  int64_t vocabStart;
  int64_t vocabSize;
  bool columnMajor;
  LogitsType type;
};

template <Device kDevice>
void scan([[maybe_unused]] const OpContext& context, const LocalArgmaxArgs& args) {
  if constexpr (kDevice == Device::kGpu) {
    localArgmaxGpu(context, args);
  } else {
    localArgmaxCpu(args);
  }
}

template <Device kDevice>
void pick([[maybe_unused]] const OpContext& context, const int32_t* candidates, int64_t ranks, int64_t rows,
          int32_t* tokens) {
  if constexpr (kDevice == Device::kGpu) {
    pickFromCandidatesGpu(context, candidates, ranks, rows, tokens);
  } else {
    pickFromCandidatesCpu(candidates, ranks, rows, tokens);
  }
}

class LocalArgmaxCandidatesKernel {
 public:
  explicit LocalArgmaxCandidatesKernel(const OpAttributes& attributes)
      : attributes_(attributes, "LocalArgmaxCandidates") {}

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor logits = context.input(0);
    require(logits.rank() == 2,
            [&] { return "LocalArgmaxCandidates: input 'logits' must have rank 2, but got shape " + logits.shape(); });
    require(attributes_.vocabSize <= attributes_.columns(logits), [&] {
      return "LocalArgmaxCandidates: attribute 'vocab_size' must be at most the "
             "number of columns of logits of shape " +
             logits.shape() + ", but got " + std::to_string(attributes_.vocabSize);
    });
    const int64_t rows = attributes_.rows(logits);
    const Tensor candidates = context.output(0, TF_INT32, {rows, kPairInts});
    if (rows == 0) return;
    scan<kDevice>(context,
                  attributes_.args(logits, attributes_.vocabStart, attributes_.vocabSize, candidates.data<int32_t>()));
  }

 private:
  LogitsAttributes attributes_;
};

class PickFromCandidatesKernel {
 public:
  explicit PickFromCandidatesKernel(const OpAttributes&) {}

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor candidates = context.input(0);
    require(candidates.rank() == 3 && candidates.dim(0) > 0 && candidates.dim(2) == kPairInts, [&] {
      return "PickFromCandidates: input 'candidates' must have shape [ranks,rows,16], but got " + candidates.shape();
    });
    const int64_t rows = candidates.dim(1);
    const Tensor tokens = context.output(0, TF_INT32, {rows});
    if (rows == 0) return;
    pick<kDevice>(context, candidates.data<const int32_t>(), candidates.dim(0), rows, tokens.data<int32_t>());
  }
};

class VocabParallelArgmaxKernel {
 public:
  explicit VocabParallelArgmaxKernel(const OpAttributes& attributes)
      : attributes_(attributes, "VocabParallelArgmax"),
        shards_(attributes.integer("N")),
        group_(attributes.integer("group")) {
    require(group_ == 0 || shards_ == 1,
            "VocabParallelArgmax: attribute 'group' goes with one shard, but got " + std::to_string(shards_));
  }

  template <Device kDevice>
  void compute(const OpContext& context) const {
    std::vector<Tensor> shards;
    for (int64_t i = 0; i < shards_; ++i) {
      shards.push_back(context.input(static_cast<int>(i)));
      const Tensor& shard = shards.back();
      require(shard.rank() == 2 && attributes_.rows(shard) == attributes_.rows(shards.front()), [&] {
        return "VocabParallelArgmax: every shard must have rank 2 and the rows of the first, of shape " +
               shards.front().shape() + ", but shard " + std::to_string(i) + " has shape " + shard.shape();
      });
    }
    const std::shared_ptr<TensorParallelGroup> group = tensorParallelGroup(group_, "VocabParallelArgmax");
    require(group == nullptr || kDevice == Device::kGpu, "VocabParallelArgmax: attribute 'group' needs a GPU");
    const int64_t rows = attributes_.rows(shards.front());
    const Tensor tokens = context.output(0, TF_INT32, {rows});
    if (rows == 0) return;
    if constexpr (kDevice == Device::kGpu) {
      if (context.isHostOutput(0)) {
        const HostResults results(context, {&tokens});
        run<kDevice>(context, shards, group.get(), rows, results.data<int32_t>(0));
        return results.bringHome(context, "VocabParallelArgmax");
      }
    }
    run<kDevice>(context, shards, group.get(), rows, tokens.data<int32_t>());
  }

 private:
  template <Device kDevice>
  void run(const OpContext& context, const std::vector<Tensor>& shards, TensorParallelGroup* group, int64_t rows,
           int32_t* tokens) const {
    const int64_t lists = group == nullptr ? shards_ : group->worldSize();
    const Tensor candidates = context.temporary(lists * rows * kPairInts * static_cast<int64_t>(sizeof(int32_t)));
    if constexpr (kDevice == Device::kGpu) {
      if (shards_ == 1) {
        const int64_t real = std::min(attributes_.vocabSize, attributes_.columns(shards[0]));
        const LocalArgmaxArgs args =
            attributes_.args(shards[0], attributes_.vocabStart, real, candidates.data<int32_t>());
        if (group != nullptr) return groupArgmaxGpu(context, args, *group, tokens);
        return argmaxGpu(context, args, tokens);
      }
    }
    int64_t firstColumn = 0;
    for (int64_t i = 0; i < shards_; ++i) {
      const int64_t columns = attributes_.columns(shards[i]);
      const int64_t real = std::clamp<int64_t>(attributes_.vocabSize - firstColumn, 0, columns);
      scan<kDevice>(context, attributes_.args(shards[i], attributes_.vocabStart + firstColumn, real,
                                              candidates.data<int32_t>() + i * rows * kPairInts));
      firstColumn += columns;
    }
    pick<kDevice>(context, candidates.data<const int32_t>(), shards_, rows, tokens);
  }

  LogitsAttributes attributes_;
  int64_t shards_;
  int64_t group_;
};

}  // namespace

void registerVocabParallelArgmax() {
  constexpr const char* kFloats = "T: {float, bfloat16, half}";
  defineOp("LocalArgmaxCandidates", {"logits: T"}, {"candidates: int32"},
           {kFloats, "vocab_start: int = 0", "vocab_size: int", "column_major: bool = false"});
  defineOp("PickFromCandidates", {"candidates: int32"}, {"tokens: int32"}, {});
  registerKernel<PickFromCandidatesKernel>("PickFromCandidates");
  for (const char* op : {"VocabParallelArgmax", "VocabParallelArgmaxHost"}) {
    defineOp(op, {"shards: N * T"}, {"tokens: int32"},
             {"N: int >= 1", kFloats, "vocab_start: int = 0", "vocab_size: int", "column_major: bool = false",
              "group: int = 0"});
  }
  for (const TF_DataType type : {TF_FLOAT, TF_BFLOAT16, TF_HALF}) {
    registerKernel<LocalArgmaxCandidatesKernel>("LocalArgmaxCandidates", {{"T", type}});
    registerKernel<VocabParallelArgmaxKernel>("VocabParallelArgmax", {{"T", type}});
    registerKernel<VocabParallelArgmaxKernel>("VocabParallelArgmaxHost", {{"T", type}}, {"tokens"});
  }
}

}  // namespace lm_head

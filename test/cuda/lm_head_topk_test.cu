// The LM head launcher against plain loops: float64 with a bound for dense heads, bit for bit for binary ones.
#include <cmath>
#include <cstring>

#include "lm_head_topk_checks.cuh"

namespace test {
namespace {

// A row is the same bits alone and in any company.
void batchInvariance(HeadFormat format) {
  const Shape one{format, 1, 3000, 1024, 20};
  current = "batch invariance, " + one.name();
  LmHeadCase alone(one);
  alone.upload();
  alone.run();
  for (const int64_t rows : {2, 8, 33, 64, 129}) {
    Shape many = one;
    many.rows = rows;
    LmHeadCase batch(many, 1);
    batch.halves = alone.halves;
    batch.words = alone.words;
    batch.weight = alone.weight;
    for (const int64_t position : {int64_t{0}, rows / 2, rows - 1}) {
      std::copy(alone.hidden.begin(), alone.hidden.end(), batch.hidden.begin() + position * one.hidden);
    }
    batch.upload();
    batch.run();
    for (const int64_t position : {int64_t{0}, rows / 2, rows - 1}) {
      expect(std::memcmp(&batch.values[position * one.k], alone.values.data(), one.k * 4) == 0,
             "values differ in a batch of " + std::to_string(rows));
      expect(std::memcmp(&batch.indices[position * one.k], alone.indices.data(), one.k * 4) == 0,
             "ids differ in a batch of " + std::to_string(rows));
    }
  }
}

// A row with one infinity: every score is an infinity of the weight's sign, or NaN where the weight is 0.
void checkInfinity(const LmHeadCase& c, int64_t row, int64_t column) {
  std::vector<float> scores;
  for (int64_t id = 0; id < c.shape.vocab; ++id) scores.push_back(INFINITY * c.weightAt(id, column));
  checkExact(c, row, scores);
}

// Rows that hold NaN, infinities or too wide a range stand beside plain ones.
void unusualRows(HeadFormat format) {
  Shape shape{format, 9, 700, 256, 12};
  current = "unusual rows, " + shape.name();
  LmHeadCase c(shape);
  float* h = c.hidden.data();
  h[1 * 256 + 7] = NAN;
  h[3 * 256 + 100] = INFINITY;
  for (int i = 0; i < 256; ++i) h[5 * 256 + i] = 0.0f;
  for (int i = 0; i < 256; ++i) h[6 * 256 + i] *= i % 2 ? 1e-30f : 1e-41f;
  for (int i = 0; i < 256; ++i) h[7 * 256 + i] *= i == 3 ? 1e30f : 1e-8f;
  c.upload();
  c.run();
  for (int64_t i = 0; i < shape.k; ++i) {
    expect(std::isnan(c.values[shape.k + i]) && c.indices[shape.k + i] == i, "NaN row" + at(1, i));
  }
  for (const int64_t row : {0, 2, 4, 5, 7, 8}) checkRow(c, row);
  if (format == HeadFormat::kBinary) {
    for (const int64_t row : {3, 6}) checkRow(c, row);
  } else {
    checkInfinity(c, 3, 100);
    checkRow(c, 6);
  }
}

// Weights that tensor cores cannot multiply exactly, or at all.
void unusualWeights(HeadFormat format) {
  const Shape shape{format, 9, 300, 256, 300};
  current = "tiny weights, " + shape.name();
  LmHeadCase tiny(shape);
  for (float& weight : tiny.weight) weight *= 1e-39f;
  for (uint16_t& half : tiny.halves)
    half = halfBits(halfValue(half, format) * (format == HeadFormat::kFloat16 ? 1e-6f : 1e-38f), format);
  tiny.upload();
  tiny.run();
  for (const int64_t row : {0, 8}) checkRow(tiny, row);

  current = "infinite weights, " + shape.name();
  LmHeadCase c(shape);
  const auto set = [&](int64_t id, int64_t column, float value) {
    if (format == HeadFormat::kFloat32) c.weight[id * 256 + column] = value;
    if (format != HeadFormat::kFloat32) c.halves[id * c.halfStride() + column] = halfBits(value, format);
  };
  for (const int64_t id : {5, 17, 290}) set(id, 3 * id % 256, INFINITY);
  for (const int64_t id : {9, 130}) set(id, id, NAN);
  set(40, 1, INFINITY);
  set(40, 2, -INFINITY);
  c.upload();
  c.run();
  for (const int64_t row : {0, 4, 8}) {
    std::vector<int32_t> expected;
    const auto add = [&](auto wanted) {
      for (int64_t id = 0; id < shape.vocab; ++id) {
        if (wanted(denseScore(c, row, id).value)) expected.push_back(static_cast<int32_t>(id));
      }
    };
    add([](double x) { return std::isnan(x); });
    add([](double x) { return x == INFINITY; });
    for (size_t i = 0; i < expected.size(); ++i) {
      expect(c.indices[row * shape.k + i] == expected[i], "id " + std::to_string(c.indices[row * shape.k + i]) +
                                                              ", expected " + std::to_string(expected[i]) + at(row, i));
    }
  }
}

// Shortest hidden rows that reach each of a format's ways: binary heads have one of its own for groups of 128 columns.
struct Columns {
  int64_t hidden, group;
};
std::vector<Columns> shortRows(HeadFormat format) {
  if (format == HeadFormat::kBinary) return {{64, 32}, {128, 128}};
  return {{64, 0}};
}

// Orders of scores that defeat thresholds, and those that deal all winners to few blocks. Scores come in by bias, so
// they are exact.
std::vector<std::vector<float>> hardOrders(int64_t vocab) {
  Random random(7);
  std::vector<std::vector<float>> orders;
  const auto add = [&](auto scoreOf) {
    std::vector<float> scores(vocab);
    for (int64_t id = 0; id < vocab; ++id) scores[id] = static_cast<float>(scoreOf(id));
    orders.push_back(scores);
  };
  add([](int64_t id) { return id; });
  add([](int64_t id) { return -id; });
  add([](int64_t) { return 0.25; });
  add([&](int64_t id) { return id >= vocab / 2 && id < vocab / 2 + 4096 ? 1e6 + id % 17 : id % 1000; });
  add([](int64_t id) { return id % 3 ? -1.0 : 1.0; });
  add([&](int64_t id) { return id % (vocab / 20 + 1) == 0 ? id : -INFINITY; });
  add([&](int64_t) { return random.uniform(); });
  // All winners with one block, however tiles are dealt.
  for (const int64_t run : {64, 128, 192, 256}) {
    for (const int64_t blocks : {132, 66, 33}) {
      add([&](int64_t id) { return id / run % blocks == 7 % blocks ? 1000.0 + id : -id; });
    }
  }
  add([](int64_t id) { return id / 64 % 132 < 3 ? 1.0 : -INFINITY; });
  return orders;
}

void hardOrders(HeadFormat format, int64_t vocab, const Columns& columns, bool all) {
  const std::vector<std::vector<float>> orders = hardOrders(vocab);
  std::vector<std::vector<lm_head::Key>> keys;
  for (const std::vector<float>& scores : orders) keys.push_back(sortedKeys(scores));
  for (const int64_t rows : {1, 2, 8, 40, 256}) {
    for (const int64_t k : {1, 50, 600, 2048, 2500}) {
      if (!all && (rows == 2 || rows == 256 || k == 600)) continue;
      const Shape shape{format, rows, vocab, columns.hidden, k, true, false, columns.group};
      LmHeadCase c(shape);
      std::fill(c.hidden.begin(), c.hidden.end(), 0.0f);
      c.upload();
      for (size_t kind = 0; kind < orders.size(); ++kind) {
        current = "hard order " + std::to_string(kind) + ", " + shape.name();
        c.setBias(orders[kind]);
        c.run();
        for (const int64_t row : {int64_t{0}, rows - 1}) checkExact(c, row, keys[kind]);
      }
    }
  }
}

// Scores that rise and fall by more than sums of exponentials keep room for, and infinities. They come in by bias.
void logSumExpRange(HeadFormat format, int64_t vocab, const Columns& columns) {
  for (const int kind : {0, 1, 2, 3, 4}) {
    for (const int64_t rows : {1, 40}) {
      const Shape shape{format, rows, vocab, columns.hidden, 5, true, false, columns.group, false, true};
      current = "range of logSumExp, kind " + std::to_string(kind) + ", " + shape.name();
      LmHeadCase c(shape);
      std::fill(c.hidden.begin(), c.hidden.end(), 0.0f);
      for (int64_t id = 0; id < vocab; ++id) {
        const float step = 200.0f / static_cast<float>(vocab);
        c.bias[id] = kind == 0 ? id * step - 190.0f : kind == 1 ? -id * step : kind == 2 && id % 3 ? -INFINITY : 0.125f;
        if (kind == 3) c.bias[id] = -INFINITY;
        if (kind == 4 && id == vocab / 2) c.bias[id] = INFINITY;
      }
      c.upload();
      c.run();
      double sum = 0.0;
      const double largest = *std::max_element(c.bias.begin(), c.bias.end());
      for (const float score : c.bias) sum += std::exp(score - largest);
      const double expected = std::isfinite(largest) ? largest + std::log(sum) : largest;
      for (const int64_t row : {int64_t{0}, rows - 1}) {
        const float got = c.logSumExp[row];
        expect(got == expected || std::fabs(got - expected) <= 1e-5 * std::max(1.0, std::fabs(expected)),
               "logSumExp " + std::to_string(got) + ", expected " + std::to_string(expected));
        expect(got >= c.values[row * shape.k], "logSumExp is less than the best score");
      }
    }
  }
}

// Dynamic tiles go to the blocks that come first, in each of the sweeps that a large k takes: whoever takes which, all
// bits stay the same.
void dynamicTiles(HeadFormat format) {
  for (const int64_t rows : {1, 2, 8}) {
    for (const int64_t k : {50, 2100}) {
      const Shape shape{format, rows, 150000, 128, k, false, false, 128, false, true};
      current = "dynamic tiles, " + shape.name();
      LmHeadCase c(shape);
      c.upload();
      c.run();
      checkRow(c, rows - 1);
      const std::vector<float> values = c.values, logSumExp = c.logSumExp;
      const std::vector<int32_t> indices = c.indices;
      for (int run = 0; run < 20; ++run) {
        c.run();
        expect(std::memcmp(values.data(), c.values.data(), values.size() * 4) == 0 && indices == c.indices,
               "run " + std::to_string(run) + " gives another top k");
        expect(std::memcmp(logSumExp.data(), c.logSumExp.data(), rows * 4) == 0,
               "run " + std::to_string(run) + " gives other bits of logSumExp");
      }
    }
  }
}

// One call is captured and replayed with another hidden in the same place.
void graphReplay(HeadFormat format) {
  const Shape shape{format, 8, 4000, 512, 50, true};
  current = "graph replay, " + shape.name();
  LmHeadCase c(shape);
  c.upload();
  c.run();  // loads the kernels
  cudaStream_t stream;
  must(cudaStreamCreate(&stream), "stream");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin capture");
  c.launch(stream);
  cudaGraph_t graph;
  must(cudaStreamEndCapture(stream, &graph), "end capture");
  cudaGraphExec_t executable;
  must(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  for (int replay = 0; replay < 50; ++replay) {
    LmHeadCase fresh(shape, 100 + replay);
    c.setHidden(fresh.hidden);
    must(cudaGraphLaunch(executable, stream), "replay");
    must(cudaStreamSynchronize(stream), "replay");
    c.fetch();
    if (replay % 10 == 0) checkRow(c, replay % 8);
    const std::vector<float> values = c.values;
    const std::vector<int32_t> indices = c.indices;
    c.run();
    expect(std::memcmp(values.data(), c.values.data(), values.size() * 4) == 0 && indices == c.indices,
           "replay " + std::to_string(replay) + " differs from a plain launch");
  }
  must(cudaGraphExecDestroy(executable), "destroy");
  must(cudaGraphDestroy(graph), "destroy");
  must(cudaStreamDestroy(stream), "destroy");
}

// Activations that somebody else has quantized. `many`: also more rows than one launch serves.
void givenScales(bool many) {
  for (const int64_t rows : {1, 9, 32770}) {
    if (rows > 9 && !many) continue;
    const Shape shape{HeadFormat::kBinary, rows, 700, 256, 12};
    current = "given scales, " + shape.name();
    LmHeadCase own(shape), given(shape);
    std::vector<float> scales(rows);
    for (int64_t row = 0; row < rows; ++row) {
      float* h = given.hidden.data() + row * shape.hidden;
      float largest = 0.0f;
      for (int64_t i = 0; i < shape.hidden; ++i) largest = std::max(largest, std::fabs(h[i]));
      scales[row] = largest / 127.0f;
      for (int64_t i = 0; i < shape.hidden; ++i) h[i] = std::nearbyint(h[i] / scales[row]);
    }
    own.upload();
    own.run();
    given.upload();
    given.setHiddenScale(scales);
    given.run();
    expect(own.values == given.values && own.indices == given.indices, "other results than for hidden itself");
  }
  current = "a row of a binary head that no shared memory holds";
  LmHeadTopKArgs args{};
  args.format = HeadFormat::kBinary;
  args.rows = 1;
  args.hiddenSize = 1 << 18;
  args.vocabSize = 64;
  args.k = 5;
  args.groupSize = 128;
  size_t bytes = 0;
  expect(lm_head::lmHeadTopKScratchBytes(args, &bytes, tuning) == cudaErrorNotSupported, "no error");
}

// Blocks keep as few keys as they may, and have little room for others: rows are swept again.
void droppedKeys(HeadFormat format, int64_t vocab, int64_t k, const Columns& columns) {
  for (const int64_t rows : {1, 2, 9, 40}) {
    for (const bool integers : {false, true}) {
      const Shape shape{format, rows, vocab, columns.hidden, k, true, false, columns.group, integers, true};
      LmHeadCase c(shape);
      if (!integers) c.hidden[3] = 1e-38f;  // a row in plain arithmetic, where others are split
      std::vector<float> values, logSumExp;
      std::vector<int32_t> indices;
      for (const int keep : {0, 1, 3}) {
        tuning.keep = keep;
        tuning.listCapacity = keep;
        current = "keeps " + std::to_string(keep) + " keys, " + shape.name();
        c.upload();
        c.run();
        if (keep == 0) {
          for (const int64_t row : {int64_t{0}, rows / 2, rows - 1}) checkRow(c, row);
          values = c.values, indices = c.indices, logSumExp = c.logSumExp;
        } else {
          expect(std::memcmp(values.data(), c.values.data(), values.size() * 4) == 0 && indices == c.indices,
                 "another top k");
          expect(std::memcmp(logSumExp.data(), c.logSumExp.data(), rows * 4) == 0, "another logSumExp");
        }
      }
      tuning.keep = tuning.listCapacity = 0;
    }
  }
}

// logSumExp has the same bits for every number of rows, k, and cut into shards at a multiple of 64 ids.
void logSumInvariance(HeadFormat format) {
  const Shape whole{format, 1, 3001, 256, 20, true, false, 128, false, true};
  current = "bits of logSumExp, " + whole.name();
  LmHeadCase alone(whole);
  alone.upload();
  alone.run();
  const auto same = [&](float value, const std::string& where) {
    expect(std::memcmp(&value, alone.logSumExp.data(), 4) == 0,
           "logSumExp " + std::to_string(value) + ", expected " + std::to_string(alone.logSumExp[0]) + where);
  };
  // Ids from `begin` on of the whole.
  const auto slice = [&](const Shape& shape, int64_t begin) {
    LmHeadCase c(shape);
    const auto copy = [&](auto& to, const auto& from) {
      const int64_t each = static_cast<int64_t>(from.size()) / whole.vocab;
      std::copy(from.begin() + begin * each, from.begin() + (begin + shape.vocab) * each, to.begin());
    };
    copy(c.bias, alone.bias);
    copy(c.weight, alone.weight);
    copy(c.words, alone.words);
    copy(c.halves, alone.halves);
    std::copy(alone.hidden.begin(), alone.hidden.end(), c.hidden.end() - whole.hidden);
    c.upload();
    c.run();
    return lm_head::LogSum::load(c.logSumState.data() + (shape.rows - 1) * lm_head::LogSum::kWords);
  };
  for (const int64_t rows : {1, 2, 5, 8, 16, 17, 33, 64, 100}) {
    for (const int64_t k : {1, 50, 2500}) {
      Shape many = whole;
      many.rows = rows;
      many.k = k;
      same(slice(many, 0).value(), " with " + std::to_string(rows) + " rows, k " + std::to_string(k));
    }
  }
  for (const int64_t cut : {64, 1024, 2944}) {
    Shape first = whole, second = whole;
    first.vocab = cut;
    second.vocab = whole.vocab - cut;
    second.rows = 9;
    same((slice(second, cut) + slice(first, 0)).value(), ", cut at " + std::to_string(cut));
  }
}

// Scores as large as float32 holds, and their logSumExp.
void edgeOfRange(HeadFormat format) {
  if (format == HeadFormat::kBinary || format == HeadFormat::kFloat16) return;
  for (const int64_t rows : {1, 8, 40}) {
    const Shape shape{format, rows, 900, 128, 20, false, false, 0, false, true};
    current = "edge of the range, " + shape.name();
    LmHeadCase c(shape);
    // Numbers that bfloat16 holds.
    const float largest = 0x1.8p127f, huge = 0x1.94p99f;
    for (int64_t id = 0; id < shape.vocab; ++id) {
      const float value = id % 2 ? -largest : id == 500 ? largest : largest / 2;
      if (format == HeadFormat::kFloat32) c.weight[id * 128 + 9] = value;
      if (format != HeadFormat::kFloat32) c.halves[id * c.halfStride() + 9] = halfBits(value, format);
    }
    std::fill(c.hidden.begin(), c.hidden.end(), 0.0f);
    for (int64_t row = 0; row < rows; ++row) c.hidden[row * 128 + 9] = 1.0f;
    c.upload();
    c.run();
    for (const int64_t row : {int64_t{0}, rows - 1}) {
      expect(c.indices[row * 20] == 500 && c.values[row * 20] == largest, "best " + std::to_string(c.values[row * 20]));
      expect(c.indices[row * 20 + 1] == 0 && c.values[row * 20 + 1] == largest / 2, "second best");
      expect(c.logSumExp[row] == largest, "logSumExp " + std::to_string(c.logSumExp[row]));
    }
    for (int64_t row = 0; row < rows; ++row) c.hidden[row * 128 + 9] = 0.0f, c.hidden[row * 128 + 10] = huge;
    c.upload();
    c.run();
    for (const int64_t row : {int64_t{0}, rows - 1}) checkRow(c, row);
  }
}

// Every kernel once, on heads as small as they can be, for tools that slow everything down. No ring of stages is used
// twice by bulk copies here: racecheck takes them for writes of the thread that starts them, which no barrier that it
// knows keeps from the reads before.
void sanitizeSuite(HeadFormat format) {
  for (const int64_t rows : {1, 2, 5, 9, 17, 33}) {
    runCase({format, rows, 300, 128, 10, rows % 2 == 0, false, 64});
    if (format == HeadFormat::kFloat32) runCase({format, rows, 300, 65, 10, false, true});
  }
  runCase({format, 1, 2100, 64, 2050, false, false, 32});
  for (const Columns& columns : shortRows(format)) {
    // With groups of 128 columns three tiles of 192 ids fill the smallest ring.
    droppedKeys(format, columns.group == 128 ? 500 : 1000, 5, columns);
    logSumExpRange(format, 600, columns);
  }
}

void formatSuite(HeadFormat format, bool quick) {
  const bool binary = format == HeadFormat::kBinary;
  const bool single = format == HeadFormat::kFloat32;
  for (const bool integers : {false, true}) {
    for (const int64_t rows : {1, 2, 5, 8, 9, 17, 33, 65}) {
      runCase({format, rows, 1500, 512, 50, rows % 2 == 0, false, 128, integers});
      if (single) runCase({format, rows, 1500, 512, 50, rows % 2 == 0, true, 128, integers});
    }
    for (const int64_t k : {1, 2, 31, 32, 33, 100, 257, 1000, 2048, 2049, 5000})
      runCase({format, 2, 5000, 256, k, false, false, 64, integers});
    for (const int64_t vocab : {1, 2, 7, 127, 128, 129, 1023, 1025})
      runCase({format, 3, vocab, 64, std::min<int64_t>(vocab, 9), true, false, 32, integers});
    if (!binary) {
      for (const int64_t hidden : {1, 7, 8, 65, 129, 1000})
        runCase({format, 3, 600, hidden, 10, false, false, 0, integers});
      if (single) {
        for (const int64_t hidden : {1, 7, 65, 1000}) runCase({format, 3, 601, hidden, 10, false, true, 0, integers});
      }
    } else {
      for (const int64_t rows : {1, 2, 8, 16, 33}) {
        for (const int64_t group : {32, 64, 96, 128, 192, 256, 384, 768})
          runCase({format, rows, 500, 768, 20, true, false, group, integers}, 8);
        for (const int64_t group : {32, 96, 160, 480})
          runCase({format, rows, 300, 480, 20, true, false, group, integers});
        for (const int64_t blocks : {3, 5, 10, 37})
          runCase({format, rows, 300, 128 * blocks, 20, true, false, 128, integers});
      }
    }
  }
  unusualRows(format);
  if (!binary) unusualWeights(format);
  batchInvariance(format);
  logSumInvariance(format);
  edgeOfRange(format);
  graphReplay(format);
  for (const Columns& columns : shortRows(format)) {
    hardOrders(format, quick ? 20000 : 100000, columns, !quick);
    droppedKeys(format, 20000, 53, columns);
    droppedKeys(format, 20000, 5000, columns);
    droppedKeys(format, 129, 129, columns);
    logSumExpRange(format, 40000, columns);
  }
  // A row of hidden that no shared memory holds.
  if (!binary) runCase({format, 2, 150, 70000, 5, false});
  if (single) runCase({format, 2, 150, 70000, 5, false, true});
  if (quick) return;
  dynamicTiles(format);
  // More rows than a launch serves; the rest has more blocks a row.
  runCase({format, 2 * 2048 + 300, 3000, 128, 100, false}, 15);
  runCase({format, 2, 32001, 2048, 50, true}, 2);
  runCase({format, 64, 32001, 1024, 2048, false}, 2);
  runCase({format, 1, 128256, 1024, 50, false}, 1);
  for (const int64_t rows : {1, 2, 5, 16, 64}) runCase({format, rows, 6000, 16384, 5, false}, 2);
  if (binary) runCase({format, 1, 3000, 16384, 5, false, false, 16384}, 1);
  if (binary) runCase({format, 1, 150, 51200, 5, false}, 1);
}

}  // namespace

void lmHeadTopK(Selection selection) {
  const auto suite = [&](HeadFormat format) {
    if (selection == Selection::kSanitize) return sanitizeSuite(format);
    formatSuite(format, selection == Selection::kQuick);
  };
  for (const HeadFormat format :
       {HeadFormat::kFloat32, HeadFormat::kBfloat16, HeadFormat::kFloat16, HeadFormat::kBinary}) {
    suite(format);
  }
  givenScales(selection != Selection::kSanitize);
  // What other GPUs would run, on this one.
  tuning.path = lm_head::Path::kPortable;
  for (const HeadFormat format :
       {HeadFormat::kFloat32, HeadFormat::kBfloat16, HeadFormat::kFloat16, HeadFormat::kBinary}) {
    suite(format);
  }
  tuning.path = lm_head::Path::kBest;
}

}  // namespace test

// The log-sum-exp of kernels/core/log_sum.h: the same bits for every order, grouping and cut, and right.
//
// usage: log_sum_test   prints "N checks, M failed"; exit code 1 where one failed
#include "../../kernels/core/log_sum.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

using lm_head::kLogSumTermIds;
using lm_head::LogSum;
using lm_head::LogSumTerm;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int checks = 0, failures = 0;
std::mt19937 randomBits(1);

void expect(bool condition, const std::string& what) {
  ++checks;
  if (condition) return;
  if (++failures <= 20) std::printf("FAILED %s\n", what.c_str());
}

bool same(const LogSum& a, const LogSum& b) {
  int32_t words[2][LogSum::kWords];
  a.store(words[0]);
  b.store(words[1]);
  const float values[2] = {a.value(), b.value()};
  return std::memcmp(words[0], words[1], sizeof(words[0])) == 0 && std::memcmp(values, values + 1, sizeof(float)) == 0;
}

LogSumTerm termOf(const float* scores, int count) {
  LogSumTerm term{-kInfinity, 0.0f};
  for (int i = 0; i < count; ++i) {
    if (scores[i] != scores[i]) return {scores[i], 0.0f};
    term.max = std::max(term.max, scores[i]);
  }
  if (std::isinf(term.max)) return term;
  for (int i = 0; i < count; ++i) term.sum += std::exp(scores[i] - term.max);
  return term;
}

std::vector<LogSumTerm> termsOf(const std::vector<float>& scores) {
  std::vector<LogSumTerm> terms;
  for (size_t first = 0; first < scores.size(); first += kLogSumTermIds) {
    terms.push_back(
        termOf(scores.data() + first, static_cast<int>(std::min<size_t>(kLogSumTermIds, scores.size() - first))));
  }
  return terms;
}

LogSum sumOf(const LogSumTerm* begin, const LogSumTerm* end) {
  LogSum sum = LogSum::empty();
  for (; begin != end; ++begin) sum.add(*begin);
  return sum;
}

LogSum sumOf(const std::vector<LogSumTerm>& terms) { return sumOf(terms.data(), terms.data() + terms.size()); }

// Cut at random, each piece for itself, the pieces in random order.
LogSum sumOfPieces(const std::vector<LogSumTerm>& terms) {
  std::vector<LogSum> pieces;
  for (size_t begin = 0; begin < terms.size();) {
    const size_t size = std::min<size_t>(terms.size() - begin, 1 + randomBits() % 40);
    pieces.push_back(sumOf(terms.data() + begin, terms.data() + begin + size));
    begin += size;
  }
  std::shuffle(pieces.begin(), pieces.end(), randomBits);
  LogSum sum = LogSum::empty();
  for (const LogSum& piece : pieces) {
    int32_t words[LogSum::kWords];
    piece.store(words);
    sum = randomBits() % 2 ? sum + LogSum::load(words) : LogSum::load(words) + sum;
  }
  return sum;
}

// As a GPU does it: the window first, then limbs in several places, then integers.
LogSum sumAtWindow(const std::vector<LogSumTerm>& terms) {
  LogSum sum = LogSum::empty();
  for (const LogSumTerm& term : terms) sum.raise(term.max);
  const double window = LogSum::windowOf(sum.max);
  int64_t lanes[7][LogSum::kLimbs] = {};
  for (size_t i = 0; i < terms.size(); ++i) LogSum::addAt(window, terms[i], lanes[i % 7]);
  for (const auto& lane : lanes) {
    for (int limb = 0; limb < LogSum::kLimbs; ++limb) sum.limbs[limb] += lane[limb];
  }
  return sum;
}

float reference(const std::vector<float>& scores) {
  long double max = -kInfinity, sum = 0.0L;
  for (const float score : scores) {
    if (score != score) return score;
    max = std::max<long double>(max, score);
  }
  if (std::isinf(max)) return static_cast<float>(max);
  for (const float score : scores) sum += std::exp(score - max);
  return static_cast<float>(max + std::log(sum));
}

void expectRight(const LogSum& sum, const std::vector<float>& scores, const std::string& what) {
  const float expected = reference(scores), value = sum.value();
  if (std::isfinite(expected)) {
    expect(std::fabs(value - expected) <= 1e-6f * std::max(1.0f, std::fabs(expected)),
           what + ": " + std::to_string(value) + " and not " + std::to_string(expected));
    expect(value >= *std::max_element(scores.begin(), scores.end()), what + " is not below the best");
  } else {
    expect(std::isnan(expected) ? std::isnan(value) : value == expected, what + " is as infinite");
  }
}

void check(const std::vector<float>& scores, const std::string& what) {
  std::vector<LogSumTerm> terms = termsOf(scores);
  const LogSum sum = sumOf(terms);
  expectRight(sum, scores, what);
  expect(same(sum, sumAtWindow(terms)), what + " by a fixed window");
  for (int i = 0; i < 10; ++i) {
    expect(same(sum, sumOfPieces(terms)), what + " in pieces");
    std::shuffle(terms.begin(), terms.end(), randomBits);
    expect(same(sum, sumOf(terms)), what + " in another order");
  }
}

std::vector<float> uniform(size_t count, float from, float to) {
  std::uniform_real_distribution<float> distribution(from, to);
  std::vector<float> scores(count);
  for (float& score : scores) score = distribution(randomBits);
  return scores;
}

void checkCuts() {
  const std::vector<float> scores = uniform(10007, -30.0f, 12.0f);
  const LogSum whole = sumOf(termsOf(scores));
  for (const size_t cut : {64u, 128u, 4992u, 9984u}) {
    const LogSum first = sumOf(termsOf({scores.begin(), scores.begin() + cut}));
    const LogSum second = sumOf(termsOf({scores.begin() + cut, scores.end()}));
    expect(same(whole, first + second) && same(whole, second + first), "a cut at " + std::to_string(cut));
  }
}

void checkManyEqual() {
  constexpr int64_t kIds = 17825792;
  for (const float score : {0.0f, -3.25f, 1e30f}) {
    LogSum sum = LogSum::empty();
    for (int64_t id = 0; id < kIds; id += kLogSumTermIds) sum.add(LogSumTerm{score, 64.0f});
    const double expected = score + std::log(static_cast<double>(kIds));
    expect(std::fabs(sum.value() - expected) <= 1e-6 * std::fabs(expected),
           "17,825,792 times " + std::to_string(score));
  }
}

// Scores of which each is smaller than what its window can show, but all together are not.
void checkManySmall() {
  for (const float below : {1.0f, 10.0f, 20.0f, 30.0f, 40.0f}) {
    LogSum sum = LogSum::empty();
    sum.add(LogSumTerm{0.0f, 1.0f});
    constexpr int64_t kTerms = 1 << 20;
    for (int64_t i = 0; i < kTerms; ++i) sum.add(LogSumTerm{-below, 64.0f});
    const double expected = std::log1p(64.0 * kTerms * std::exp(-static_cast<double>(below)));
    expect(std::fabs(sum.value() - expected) <= 1e-6 * std::max(1.0, expected), "67 million far below");
  }
}

void checkSpecial() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect(LogSum::empty().value() == -kInfinity, "nothing");
  std::vector<float> scores = uniform(1000, -5.0f, 5.0f);
  check(std::vector<float>(200, -kInfinity), "all -inf");
  scores[300] = -kInfinity;
  check(scores, "with -inf");
  scores[700] = kInfinity;
  check(scores, "with +inf");
  check(std::vector<float>(200, kInfinity), "all +inf");
  scores[100] = nan;
  check(scores, "with NaN and +inf");
  scores[800] = -nan;
  check(scores, "with two NaNs");
  check({-0.0f}, "-0");
  std::vector<float> zeros(128, 0.0f);
  std::fill_n(zeros.begin(), 64, -0.0f);
  check(zeros, "zeros of both signs");
}

}  // namespace

int main() {
  for (const float size : {1e-30f, 1e-6f, 1.0f, 10.0f, 50.0f, 100.0f, 1000.0f, 1e6f, 1e20f, 1e30f}) {
    check(uniform(5000, -size, size), "scores to " + std::to_string(size));
    check(uniform(5000, -size, -0.9f * size), "negative scores to " + std::to_string(size));
    for (const size_t count : {1u, 2u, 63u, 64u, 65u}) {
      check(uniform(count, -size, size), std::to_string(count) + " scores to " + std::to_string(size));
    }
  }
  for (const float score : {3e38f, -3e38f, 3.4028235e38f, -3.4028235e38f, 1e17f, 6.2431e15f}) {
    check(std::vector<float>(1, score), "one " + std::to_string(score));
    std::vector<float> scores(1000, score);
    check(scores, "all " + std::to_string(score));
    for (size_t i = 0; i < scores.size(); i += 3) scores[i] = std::nextafter(score, 0.0f);
    for (size_t i = 0; i < scores.size(); i += 2) scores[i] = -score;
    check(scores, "with " + std::to_string(score));
  }
  checkCuts();
  checkManyEqual();
  checkManySmall();
  checkSpecial();
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}

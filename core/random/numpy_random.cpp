#include <algorithm>
#include <bit>
#include <cmath>

#include <hero/core/error.h>
#include <hero/core/numpy_random.h>

namespace hero {
namespace {

constexpr uint32_t kWords = 624, kMiddle = 397;

size_t count_of(int64_t n, const char* op) {
  check(n >= 0, op, ": the number of values is negative: ", n);
  return static_cast<size_t>(n);
}

template <class T>
std::vector<T> room_for(int64_t n, const char* op) {
  const size_t count = count_of(n, op);
  return within_memory(op, [&] { return std::vector<T>(count); });
}

template <class T, class Draw>
std::vector<T> many(int64_t n, const char* op, const Draw& draw) {
  auto values = room_for<T>(n, op);
  for (T& value : values) value = draw();
  return values;
}

uint32_t twist(uint32_t upper, uint32_t lower, uint32_t far) {
  const uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
  return far ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0u);
}

}  // namespace

void NumpyRandom::seed(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kWords; ++i)
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  at_ = kWords;
  has_kept_ = false;
}

void NumpyRandom::seed(std::span<const uint32_t> key) {
  check(!key.empty(), "NumpyRandom: the list of seeds is empty");
  seed(19650218u);
  const auto length = static_cast<uint32_t>(key.size());
  const auto mixed = [&](uint32_t i, uint32_t factor) {
    return state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * factor);
  };
  uint32_t i = 1;
  const auto step = [&] {
    if (++i == kWords) {
      state_[0] = state_[kWords - 1];
      i = 1;
    }
  };
  for (uint32_t k = 0, j = 0; k < std::max(kWords, length); ++k) {
    state_[i] = mixed(i, 1664525u) + key[j] + j;
    step();
    if (++j == length) j = 0;
  }
  for (uint32_t k = 1; k < kWords; ++k) {
    state_[i] = mixed(i, 1566083941u) - i;
    step();
  }
  state_[0] = 0x80000000u;
}

void NumpyRandom::refill() {
  uint32_t i = 0;
  for (; i < kWords - kMiddle; ++i) {
    state_[i] = twist(state_[i], state_[i + 1], state_[i + kMiddle]);
  }
  for (; i < kWords - 1; ++i) {
    state_[i] = twist(state_[i], state_[i + 1], state_[i + kMiddle - kWords]);
  }
  state_[i] = twist(state_[i], state_[0], state_[kMiddle - 1]);
  at_ = 0;
}

uint32_t NumpyRandom::next_uint32() {
  if (at_ == kWords) refill();
  uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

uint64_t NumpyRandom::next_uint64() {
  const uint64_t high = next_uint32();
  return high << 32 | next_uint32();
}

double NumpyRandom::rand() {
  const uint32_t a = next_uint32() >> 5, b = next_uint32() >> 6;
  return (a * 0x1p26 + b) * 0x1p-53;
}

std::vector<double> NumpyRandom::rand(int64_t n) {
  return many<double>(n, "rand", [&] { return rand(); });
}

double NumpyRandom::uniform(double low, double high) {
  const double range = high - low;
  check(std::isfinite(range), "uniform: the bounds are not a finite range: [", low, ", ", high,
        ")");
  return low + range * rand();
}

std::vector<double> NumpyRandom::uniform(double low, double high, int64_t n) {
  return many<double>(n, "uniform", [&] { return uniform(low, high); });
}

double NumpyRandom::randn() {
  if (has_kept_) {
    has_kept_ = false;
    return kept_;
  }
  double x1 = 0, x2 = 0, r2 = 0;
  do {
    x1 = 2.0 * rand() - 1.0;
    x2 = 2.0 * rand() - 1.0;
    r2 = x1 * x1 + x2 * x2;
  } while (r2 >= 1.0 || r2 == 0.0);
  const double f = std::sqrt(-2.0 * std::log(r2) / r2);
  kept_ = f * x1;
  has_kept_ = true;
  return f * x2;
}

std::vector<double> NumpyRandom::randn(int64_t n) {
  return many<double>(n, "randn", [&] { return randn(); });
}

double NumpyRandom::normal(double loc, double scale) {
  check(scale >= 0, "normal: the standard deviation is negative: ", scale);
  return loc + scale * randn();
}

std::vector<double> NumpyRandom::normal(double loc, double scale, int64_t n) {
  return many<double>(n, "normal", [&] { return normal(loc, scale); });
}

uint64_t NumpyRandom::bounded(uint64_t max) {
  if (max == 0) return 0;  // draws nothing
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  uint64_t value = 0;
  do {
    value = (max <= 0xffffffffu ? next_uint32() : next_uint64()) & mask;
  } while (value > max);
  return value;
}

int64_t NumpyRandom::randint(int64_t low, int64_t high) {
  check(low < high, "randint: the range is empty: [", low, ", ", high, ")");
  const auto base = static_cast<uint64_t>(low);
  return static_cast<int64_t>(base + bounded(static_cast<uint64_t>(high) - base - 1));
}

std::vector<int64_t> NumpyRandom::randint(int64_t low, int64_t high, int64_t n) {
  return many<int64_t>(n, "randint", [&] { return randint(low, high); });
}

std::vector<int64_t> NumpyRandom::permutation(int64_t n) {
  auto order = room_for<int64_t>(n, "permutation");
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  shuffle(std::span<int64_t>(order));
  return order;
}

}  // namespace hero

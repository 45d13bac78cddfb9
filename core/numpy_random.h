#pragma once
// NumPy's legacy generator (RandomState, np.random.seed and its like) with the same bits: the
// Mersenne Twister of Matsumoto and Nishimura (1998) and the draws that NumPy makes from it.
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hero {

/// Like np.random.RandomState. Normal numbers are computed without fused multiply-adds.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed = 0) { this->seed(seed); }
  explicit NumpyRandom(std::span<const uint32_t> key) { seed(key); }

  /// Seeds the generator; a normal number that was kept is dropped.
  void seed(uint32_t seed);
  /// Seeds it with a list of words that is not empty, as np.random.seed([...]).
  void seed(std::span<const uint32_t> key);

  /// The next raw words of the Mersenne Twister.
  uint32_t next_uint32();
  uint64_t next_uint64();

  /// Uniform in [0, 1), with 53 bits; random_sample() is NumPy's other name for it.
  double rand();
  double random_sample() { return rand(); }
  std::vector<double> rand(int64_t n);
  std::vector<double> random_sample(int64_t n) { return rand(n); }

  /// Uniform in [low, high).
  double uniform(double low, double high);
  std::vector<double> uniform(double low, double high, int64_t n);

  /// Standard normal, by Marsaglia's polar method; every second number is kept for the next call.
  double randn();
  std::vector<double> randn(int64_t n);

  /// Normal with mean loc and standard deviation scale >= 0.
  double normal(double loc, double scale);
  std::vector<double> normal(double loc, double scale, int64_t n);

  /// Integers in [low, high), as np.random.randint(low, high) of the default dtype int64.
  int64_t randint(int64_t low, int64_t high);
  std::vector<int64_t> randint(int64_t low, int64_t high, int64_t n);

  /// A random permutation of 0 to n - 1.
  std::vector<int64_t> permutation(int64_t n);

  /// Shuffles in place.
  template <class T>
  void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) {
      const auto j = static_cast<size_t>(bounded(i));
      T held = std::move(values[i]);
      values[i] = std::move(values[j]);
      values[j] = std::move(held);
    }
  }

 private:
  void refill();
  // Uniform in [0, max]: draws are masked to the bits of max and repeated while they lie above it.
  uint64_t bounded(uint64_t max);

  std::array<uint32_t, 624> state_{};
  uint32_t at_ = 624;
  bool has_kept_ = false;
  double kept_ = 0;
};

}  // namespace hero

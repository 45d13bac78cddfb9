#pragma once
// Counter-based random numbers. Element i of a random array depends on the seed, the stream and the
// global index i alone, so any split over threads, calls or ranks gives the same bits.
#include <cstdint>
#include <span>
#include <string_view>

namespace hero {

/// Where a random array's numbers come from: `key` is the seed, `id` tells arrays of one seed
/// apart.
struct Stream {
  uint64_t key = 0;
  uint64_t id = 0;
  bool operator==(const Stream&) const = default;
};

/// Hands out a fresh stream to each random operation; seed and offset are its whole state.
class Generator {
 public:
  struct State {
    uint64_t seed = 0;
    uint64_t offset = 0;
    bool operator==(const State&) const = default;
  };

  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}

  /// The stream of the next random operation; the one after it gets another.
  Stream next() { return {state_.seed, state_.offset++}; }

  /// Starts again, with offset 0.
  void seed(uint64_t seed) { state_ = {seed, 0}; }
  uint64_t seed() const { return state_.seed; }

  /// Save and restore: a generator set to a saved state continues as the saved one did.
  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

 private:
  State state_;
};

/// The generator that operations use when none is given; one for each thread, seed 0 at the start.
Generator& default_generator();

/// Seeds this thread's default generator.
void manual_seed(uint64_t seed);

/// A stream that a name fixes, whatever was drawn before; disjoint from those of a Generator.
Stream named_stream(uint64_t seed, std::string_view name);

// The numbers of elements first_index ... first_index + out.size() - 1 of a random array. Each
// piece of a split array passes its own first_index; first_index >= 0.

/// Uniform in [lo, hi): 24 random bits in float, 53 in double; lo where lo == hi.
void fill_uniform(std::span<float> out, Stream stream, int64_t first_index, float lo = 0,
                  float hi = 1);
void fill_uniform(std::span<double> out, Stream stream, int64_t first_index, double lo = 0,
                  double hi = 1);

/// Normal with the given mean and standard deviation, by Box and Muller's map of elements 2j, 2j
/// + 1.
void fill_normal(std::span<float> out, Stream stream, int64_t first_index, double mean = 0,
                 double stddev = 1);
void fill_normal(std::span<double> out, Stream stream, int64_t first_index, double mean = 0,
                 double stddev = 1);

/// Raw words.
void fill_bits(std::span<uint32_t> out, Stream stream, int64_t first_index);
void fill_bits(std::span<uint64_t> out, Stream stream, int64_t first_index);

/// Integers in [low, high): 64 random bits scaled by the range, so that no value's probability is
/// off by more than 2^-64 (the exact method would draw again, and a redraw breaks random access).
void fill_randint(std::span<int64_t> out, Stream stream, int64_t first_index, int64_t low,
                  int64_t high);

/// True with probability p in [0, 1], to 2^-32.
void fill_bernoulli(std::span<bool> out, Stream stream, int64_t first_index, double p);

/// Exponential with the given rate > 0: -ln(u) / rate, u in (0, 1].
void fill_exponential(std::span<float> out, Stream stream, int64_t first_index, double rate = 1);
void fill_exponential(std::span<double> out, Stream stream, int64_t first_index, double rate = 1);

/// A random order of 0 ... out.size() - 1 (Fisher and Yates, from the end; sequential).
void fill_permutation(std::span<int64_t> out, Stream stream);

}  // namespace hero

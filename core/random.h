#pragma once
// Counter-based random numbers. Element i of a random array depends only on the seed, the stream
// and the global index i, so the bits are the same however the array is divided among threads,
// calls or ranks. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
#include <cstdint>
#include <span>
#include <string_view>

namespace hero {

/// Where the numbers of a random array come from: `key` is the seed, and `id` distinguishes arrays
/// with the same seed.
struct RandomStream {
  uint64_t key = 0;
  uint64_t id = 0;
  bool operator==(const RandomStream&) const = default;
};

/// Gives each random operation a stream of its own; seed and offset are its whole state.
class Generator {
 public:
  struct State {
    uint64_t seed = 0;
    uint64_t offset = 0;
    bool operator==(const State&) const = default;
  };

  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}

  /// The stream for the next random operation; every call returns another.
  RandomStream next() { return {state_.seed, state_.offset++}; }

  /// Seeds the generator; the offset becomes 0.
  void seed(uint64_t seed) { state_ = {seed, 0}; }
  uint64_t seed() const { return state_.seed; }

  /// The state. A generator that is set to a saved state continues as the saved one did.
  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

 private:
  State state_;
};

/// The generator that operations use if none is given. Each thread has one, which begins with seed
/// 0.
Generator& default_generator();

/// Seeds this thread's default generator.
void manual_seed(uint64_t seed);

/// The part of a batch that a thread computes with. The batch is cut into `ranks` consecutive parts
/// with equally many examples; this is part `rank`.
struct BatchPart {
  int64_t rank = 0;
  int64_t ranks = 1;
  bool operator==(const BatchPart&) const = default;
};

/// This thread's part of the batch, by default the whole batch. It decides how masks of dropout and
/// slopes of rrelu() are drawn for tensors whose first dimension counts examples: each example of
/// the part gets the random numbers that it would get in the whole batch. DDP, ZeRO and
/// fully_shard() set it within forward, and checkpoint() restores it when it runs forward again.
/// All other random operations ignore it.
BatchPart& batch_part();

/// A stream that depends only on the seed and a name, and not on the numbers drawn before; it
/// differs from all streams of a Generator.
RandomStream named_stream(uint64_t seed, std::string_view name);

// The numbers of elements first_index ... first_index + out.size() - 1 of a random array. Each
// piece of a split array passes its own first_index; first_index >= 0.

/// Uniform in [lo, hi), with 24 random bits in float and 53 in double; lo if lo == hi.
void fill_uniform(std::span<float> out, RandomStream stream, int64_t first_index, float lo = 0,
                  float hi = 1);
void fill_uniform(std::span<double> out, RandomStream stream, int64_t first_index, double lo = 0,
                  double hi = 1);

/// Normal with this mean and standard deviation, by the Box-Muller transform of elements 2j and 2j
/// + 1.
void fill_normal(std::span<float> out, RandomStream stream, int64_t first_index, double mean = 0,
                 double stddev = 1);
void fill_normal(std::span<double> out, RandomStream stream, int64_t first_index, double mean = 0,
                 double stddev = 1);

/// Raw random words.
void fill_bits(std::span<uint32_t> out, RandomStream stream, int64_t first_index);
void fill_bits(std::span<uint64_t> out, RandomStream stream, int64_t first_index);

/// Integers in [low, high): 64 random bits scaled by the range, so that no probability is off by
/// more than 2^-64. (The exact method would have to draw again, which makes random access
/// impossible.)
void fill_randint(std::span<int64_t> out, RandomStream stream, int64_t first_index, int64_t low,
                  int64_t high);

/// True with probability p in [0, 1], rounded to a multiple of 2^-32.
void fill_bernoulli(std::span<bool> out, RandomStream stream, int64_t first_index, double p);

/// Exponential with this rate > 0: -ln(u) / rate, with u uniform in (0, 1].
void fill_exponential(std::span<float> out, RandomStream stream, int64_t first_index,
                      double rate = 1);
void fill_exponential(std::span<double> out, RandomStream stream, int64_t first_index,
                      double rate = 1);

/// A random permutation of 0 to out.size() - 1 (Fisher and Yates, from the end; sequential).
void fill_permutation(std::span<int64_t> out, RandomStream stream);

}  // namespace hero

#pragma once
// What the families tell a step that may be captured.
#include <cstdint>
#include <span>
#include <vector>

namespace hero::cuda {

struct HostValue {
  const char* op;
  double value;
};
using HostValues = std::vector<HostValue>;

/// Numbers that the host gives to a kernel and that may differ from step to step; a replayed graph
/// would repeat them.
void note_values(const char* op, std::span<const double> values);
inline void note_value(const char* op, double value) { note_values(op, {&value, 1}); }

/// Where the random numbers of a replayed step are, in device memory: every replay has its own.
struct RandomBase {
  uint64_t seed = 0;
  uint64_t shift = 0;  ///< added to the number of the stream that was captured
};

/// For an operation that draws from this stream: what its kernel reads to get the replay's numbers,
/// or null when they are those that the host says. Streams of the calling thread's default
/// generator advance from replay to replay, all others must be the same in every call.
const RandomBase* random_base(uint64_t seed, uint64_t stream);

}  // namespace hero::cuda

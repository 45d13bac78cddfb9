#pragma once
// What the families tell a step that may be captured.
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

}  // namespace hero::cuda

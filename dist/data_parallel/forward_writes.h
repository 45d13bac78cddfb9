#pragma once
// ForwardWrites: what a forward wrote to parameters, for the other ranks to compare.
#include <cstdint>
#include <string>

#include <hero/autograd/tensor.h>

namespace hero::dist {

/// The version of a tensor's memory, which every write to it raises.
inline uint32_t version_of(const Tensor& tensor) { return tensor.array().storage().version(); }

/// Parameters whose memory was written since a version was seen.
class ForwardWrites {
 public:
  /// Adds the parameter, if it was written since `seen`, which becomes its version.
  void add(const std::string& name, const Tensor& tensor, uint32_t& seen);
  bool empty() const { return count_ == 0; }
  /// What a rank declares: the names, with a hash of the values that were there. `shares`: the
  /// parameters lie in one memory, so that one of them was written.
  std::string text(const char* strategy, bool shares) const;

 private:
  std::string names_;
  int count_ = 0;
  uint32_t hash_ = 0;
};

}  // namespace hero::dist

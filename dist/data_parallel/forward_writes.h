#pragma once
// ForwardWrites: the parameters that a forward pass has written, which the ranks compare.
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
  /// The text that the rank declares (Communicator::declare()): `who` wrote, the names, and a hash
  /// of the values. `shares`: the parameters share one memory, so it is known only that one of them
  /// was written.
  std::string text(const char* who, const char* strategy, bool shares) const;

 private:
  std::string names_;
  int count_ = 0;
  uint32_t hash_ = 0;
};

}  // namespace hero::dist

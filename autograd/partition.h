#pragma once
// Leaves that hold a part of a larger parameter, whose other parts lie with other ranks. Optimizers
// step such a leaf as any other; what needs the whole (norms, a search for overflows) asks here.
#include <memory>
#include <span>

#include <hero/autograd/tensor.h>

namespace hero {

/// Those who hold the parts of some parameters together.
class Owners {
 public:
  Owners() = default;
  Owners(const Owners&) = delete;
  Owners& operator=(const Owners&) = delete;
  virtual ~Owners() = default;
  /// Each word becomes the sum of all owners' words, which wraps. A collective: every owner calls
  /// it.
  virtual void add_up(std::span<int64_t> words) = 0;
  /// Each word becomes the largest of all owners' words. A collective too.
  virtual void largest(std::span<int64_t> words) = 0;
};

/// Which part of which parameter a leaf holds: elements first ... first + leaf.numel() - 1 of a
/// row-major parameter of shape `whole`; there may be none.
struct Partition {
  Shape whole;
  int64_t first = 0;
  std::shared_ptr<Owners> owners;
};

/// The leaf's partition; null for a leaf that is whole, and for what is no leaf.
const Partition* partition(const Tensor& tensor);

/// The leaf goes on as one that holds `part`, of any shape; it stays the same tensor, its hooks
/// stay, its gradient is dropped. An undefined partition makes it whole again.
void set_part(const Tensor& leaf, const Array& part, std::shared_ptr<const Partition> partition);

}  // namespace hero

#pragma once
// Leaves that hold a part of a larger parameter, whose other parts lie with other ranks. Optimizers
// step such a leaf as any other; what needs the whole (norms, a search for overflows) asks here.
#include <memory>

#include <hero/autograd/tensor.h>

namespace hero {

/// Those who hold the parts of some parameters together.
class Owners {
 public:
  Owners() = default;
  Owners(const Owners&) = delete;
  Owners& operator=(const Owners&) = delete;
  virtual ~Owners() = default;
  /// Each element of an int64 array becomes the sum of all owners' elements, which wraps, in place.
  /// A collective: every owner calls it. The array is contiguous, on the cpu or on the parameters'
  /// device, and there the host does not wait.
  virtual void add_up(const Array& words) = 0;
  /// Each element becomes the largest of all owners' elements; NaN wins. A collective too, of any
  /// dtype.
  virtual void largest(const Array& x) = 0;
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

#pragma once
// Leaves that hold a part of a larger parameter, whose other parts lie with other ranks. Optimizers
// step such a leaf as any other; what needs the whole (norms, a search for overflows) asks here.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/layout.h>
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
  /// Those who hold other parameters of the same model, as the stages of a pipeline do; null where
  /// there are none. What looks at all parameters, as their norm, asks the owners of each and then,
  /// once, these.
  virtual Owners* elsewhere() { return nullptr; }
  /// True where what these hold is a copy of parameters that others of elsewhere() hold, too: what
  /// looks at all parameters counts them there and not here.
  virtual bool is_copy() const { return false; }

  /// \name What operations ask that several owners compute together (autograd/collectives.h)
  /// Each is an Error where the owners are several groups, one within the other. All but the first
  /// two are collectives of arrays that are contiguous and of one dtype; `op` names them in errors.
  /// \{
  /// This owner's number among them, from 0 on, and how many there are.
  virtual int rank() const;
  virtual int size() const;
  /// Each element of x becomes the sum of all owners' elements, added up in the order of a tree:
  /// T[0, n) = T[0, p) + T[p, n), p the largest power of two below n. Halves are added up in
  /// float32 and rounded once.
  virtual void all_reduce(const Array& x, const char* op);
  /// `output` becomes all owners' inputs, one behind the other.
  virtual void all_gather(const Array& output, const Array& input, const char* op);
  /// `output` becomes this owner's one of size() even parts of the inputs' sum, added up so.
  virtual void reduce_scatter(const Array& output, const Array& input, const char* op);
  /// \}
};

/// Which part of which parameter a leaf holds: elements first ... first + leaf.numel() - 1 of boxes
/// of a parameter of shape `whole`, laid one behind the other, each row-major; there may be none.
/// Without boxes they are elements of the row-major parameter itself. Boxes lie in the whole and
/// share no element.
struct Partition {
  Shape whole;
  std::vector<Box> boxes = {};
  int64_t first = 0;
  std::shared_ptr<Owners> owners = nullptr;
};

/// The leaf's partition; null for a leaf that is whole, and for what is no leaf.
const Partition* partition(const Tensor& tensor);

/// The shape of the parameter that a leaf holds or holds a part of, on every rank: what a program
/// asks that goes by the number of dimensions. `whole_shape(p).size() >= 2` is true of a matrix
/// before and after it was sharded, where `p.ndim()` is 1 of every shard.
const Shape& whole_shape(const Tensor& tensor);
/// "elements 0 to 44 of a parameter of shape [13, 7]", or "... of 0:13,2:5 of a parameter ..."
/// where it has boxes (offset and extent of each dimension), of a leaf with a partition; for
/// messages.
std::string describe_part(const Tensor& leaf);

/// The leaf goes on as one that holds `part`, of any shape; it stays the same tensor, its hooks
/// stay, its gradient is dropped. An undefined partition makes it whole again. An Error where boxes
/// do not lie in the whole, share elements or have fewer than `part`.
void set_part(const Tensor& leaf, const Array& part, std::shared_ptr<const Partition> partition);

/// Whoever cuts, gathers and frees the values of some leaves. Their dtype and device change through
/// it alone, since it holds the memory that the leaves only look at.
class Keeper {
 public:
  Keeper() = default;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  virtual ~Keeper() = default;
  /// The leaf's name, and of what it is a part; for messages.
  virtual std::string describe(const Tensor& leaf) const = 0;
  /// An Error where these leaves cannot be converted together now; changes nothing.
  virtual void check_convertible(const std::vector<Tensor>& leaves,
                                 std::optional<Device> device) const = 0;
  /// Converts them, their gradients too; they stay the same tensors.
  virtual void convert(const std::vector<Tensor>& leaves, std::optional<DType> dtype,
                       std::optional<Device> device) = 0;
};

/// Who keeps the leaf; null for one that is on its own.
std::shared_ptr<Keeper> keeper(const Tensor& leaf);
void set_keeper(const Tensor& leaf, const std::weak_ptr<Keeper>& keeper);

/// While it lives, `fetch` is called when backward needs what it saved of a storage whose bytes are
/// released; fetch refills it. So a graph may be walked after its parameters were freed.
class Refill {
 public:
  Refill(const core::Storage& storage, std::function<void()> fetch);
  ~Refill();
  Refill(const Refill&) = delete;
  Refill& operator=(const Refill&) = delete;

 private:
  const core::Storage* storage_;
};

namespace detail {
/// Calls what a Refill of the storage says, if there is one.
void refill(const core::Storage& storage);
}  // namespace detail

}  // namespace hero

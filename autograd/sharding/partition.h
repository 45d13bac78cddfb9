#pragma once
// Leaves that are shards of larger parameters, whose other shards belong to other ranks. Optimizers
// step such a leaf like any other; functions that need the whole parameter, such as norms and the
// search for overflows, find its Partition and RankGroup here.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/autograd/sharding/layout.h>
#include <hero/autograd/tensor.h>

namespace hero {

/// Checks that several ranks do the same: each tells the others what it does, and if they do
/// different things, all get an Error.
class ConsistencyChecker {
 public:
  ConsistencyChecker() = default;
  ConsistencyChecker(const ConsistencyChecker&) = delete;
  ConsistencyChecker& operator=(const ConsistencyChecker&) = delete;
  virtual ~ConsistencyChecker() = default;
  /// Adds the text `what` to the next collective of these ranks, whichever it is: if their texts
  /// differ, all ranks get an Error that lists the texts. Does not communicate itself.
  virtual void declare(const std::string& what) = 0;
};

/// A group of ranks as autograd and optimizers see it, such as the ranks that hold the shards of
/// some parameters. dist makes one of a Communicator.
class RankGroup : public ConsistencyChecker {
 public:
  /// By default does nothing, for groups that cannot compare what their ranks do.
  void declare(const std::string&) override {}
  /// Replaces each element of an int64 array by the sum of all ranks' elements, which wraps. A
  /// collective, which every rank calls. The array is contiguous, and on the cpu or on the
  /// parameters' device, for which the host does not wait.
  virtual void add_up(const Array& words) = 0;
  /// Replaces each element by the largest of all ranks' elements, or by NaN if there is one. A
  /// collective, of any dtype.
  virtual void largest(const Array& x) = 0;
  /// The ranks that hold the other parameters of the same model, such as the other stages of a
  /// pipeline; null if there are none. A function of all parameters, such as their norm, asks the
  /// group of each parameter and then, once, this one.
  virtual RankGroup* elsewhere() { return nullptr; }
  /// True if the parameters are copies of parameters that others in elsewhere() have, too: a
  /// function of all parameters counts them there and not here.
  virtual bool is_copy() const { return false; }

  /// \name For operations that several ranks compute together (autograd/ops/collectives.h)
  /// Each throws an Error if the ranks are several nested groups. All but rank() and size() are
  /// collectives of contiguous arrays of one dtype; `op` names them in errors.
  /// \{
  /// This rank's number in the group, from 0, and how many ranks it has.
  virtual int rank() const;
  virtual int size() const;
  /// Replaces each element of x by the sum of all ranks' elements, added up in the order of a
  /// tree: T[0, n) = T[0, p) + T[p, n), where p is the largest power of two below n. Half precision
  /// is added up in float32 and rounded once.
  virtual void all_reduce(const Array& x, const char* op);
  /// Sets `output` to all ranks' inputs, one after the other.
  virtual void all_gather(const Array& output, const Array& input, const char* op);
  /// Sets `output` to this rank's part, of size() equal parts, of the sum of all inputs, which is
  /// added up as in all_reduce().
  virtual void reduce_scatter(const Array& output, const Array& input, const char* op);
  /// \}
};

/// Which part of which parameter a leaf is: elements first to first + leaf.numel() - 1, perhaps
/// none, of boxes of a parameter of shape `whole`, one box after the other, each row-major. Without
/// boxes, they are elements of the row-major parameter itself. Boxes lie in the whole and share no
/// element.
struct Partition {
  Shape whole;                                 ///< the shape of the parameter
  std::vector<Box> boxes = {};                 ///< the boxes, if it is cut into boxes
  int64_t first = 0;                           ///< the first element of the part
  std::shared_ptr<RankGroup> group = nullptr;  ///< the ranks that hold the parts of the parameter
};

/// The partition of a leaf; null if the leaf is whole, or the tensor is not a leaf.
const Partition* partition(const Tensor& tensor);

/// The shape of the whole parameter, for a leaf that is the parameter or a part of it, on every
/// rank. Use it if your program depends on the number of dimensions: `whole_shape(p).size() >= 2`
/// is true for a matrix before and after sharding, while `p.ndim()` of every shard is 1.
const Shape& whole_shape(const Tensor& tensor);
/// Describes a leaf with a partition in messages: "elements 0 to 44 of a parameter of shape [13,
/// 7]", or "... of 0:13,2:5 of a parameter ..." if it has boxes (offset and extent of each
/// dimension).
std::string describe_part(const Tensor& leaf);

/// Gives the leaf the values `part`, of any shape; it stays the same tensor and keeps its hooks,
/// and its gradient is dropped. An undefined partition makes it whole again. Throws an Error if
/// boxes do not lie in the whole, share elements, or have fewer elements than `part`.
void set_part(const Tensor& leaf, const Array& part, std::shared_ptr<const Partition> partition);

/// The object that shards, gathers and frees the values of some leaves. Their dtype and device
/// change only through it, since it owns the memory of the leaves.
class ParameterOwner {
 public:
  ParameterOwner() = default;
  ParameterOwner(const ParameterOwner&) = delete;
  ParameterOwner& operator=(const ParameterOwner&) = delete;
  virtual ~ParameterOwner() = default;
  /// The name of the leaf and of the unit to which it belongs; for messages.
  virtual std::string describe(const Tensor& leaf) const = 0;
  /// Throws an Error if these leaves cannot be converted together now; changes nothing.
  virtual void check_convertible(const std::vector<Tensor>& leaves,
                                 std::optional<Device> device) const = 0;
  /// Converts the leaves and their gradients; they stay the same tensors.
  virtual void convert(const std::vector<Tensor>& leaves, std::optional<DType> dtype,
                       std::optional<Device> device) = 0;
  /// The leaf that optimizers hold for a parameter, which is its shard; `tensor` is this leaf or
  /// the whole parameter that was gathered.
  virtual Tensor optimizer_leaf(const Tensor& tensor) const = 0;
};

/// The owner of the leaf; null if there is none.
std::shared_ptr<ParameterOwner> parameter_owner(const Tensor& leaf);
void set_parameter_owner(const Tensor& leaf, const std::weak_ptr<ParameterOwner>& owner);
/// The leaves that optimizers hold for these parameters: for a whole parameter that a sharded
/// module has gathered from its forward to its backward the shard, for any other the parameter
/// itself.
std::vector<Tensor> optimizer_leaves(std::vector<Tensor> parameters);

/// While it lives, `fetch` is called if backward needs saved values in this storage and its bytes
/// are released; fetch restores them. So backward can run after parameters were freed.
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
/// Calls `fetch` of the storage's Refill, if there is one.
void refill(const core::Storage& storage);
}  // namespace detail

}  // namespace hero

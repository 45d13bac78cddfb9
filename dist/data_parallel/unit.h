#pragma once
// Unit: parameters that are sharded, gathered and reduced together, with one collective for all of
// them; FSDP2 calls it parameter group. The parameters are concatenated; rank r owns the r-th of N
// equal parts of that flat parameter (flat_parameter.h), so a rank's shard of one parameter is a
// slice of it, perhaps empty. Zeros fill gaps of fewer than 8 elements behind parameters whose size
// is no multiple of 8 and, at the end, fewer than 8 elements per rank that make the parts equal. No
// parameter's shard contains them. unshard() begins the all-gather (all_gather.h), begin_reduce()
// the reduce-scatter (reduce_scatter.h); when it is not needed, the shard lies at an offload target
// (offload_target.h), if there is one. The schedule (unit_schedule.h) decides when these functions
// are called, and what is prefetched.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/data_parallel/all_gather.h>
#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/dist/data_parallel/offload_target.h>
#include <hero/dist/data_parallel/reduce_scatter.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// The name of the unit of the sharded module itself.
inline constexpr std::string_view kRoot = "root";
/// The suffix of the name of a unit of frozen parameters, if the module has another unit of
/// trainable parameters.
inline constexpr std::string_view kFrozen = " (frozen)";

/// One parameter of a unit.
struct UnitParameter {
  std::string name;
  std::vector<std::string> names = {};  ///< all its names; more than one if it is tied
  std::vector<nn::Slot*> slots = {};    ///< all slots of the module that hold it
  /// The leaf of optimizers: the shard, or under Stage::none the whole parameter.
  Tensor leaf = {};
  Tensor full = {};  ///< the whole parameter, used in forward; under Stage::none `leaf`
  Shape shape = {};  ///< shape of `full`
  std::shared_ptr<const Partition> former = {};  ///< which part of a larger parameter `full` is
  std::shared_ptr<RankGroup> group = {};         ///< ranks that hold its shards
  Chunk place = {};                              ///< its elements in the flat parameter
  size_t id = 0;                                 ///< its index among all parameters of the module
  bool watched = false;  ///< a hook of `full` reports when its gradient is complete
  bool ready = false;    ///< its gradient is complete in the current backward
  bool trains = false;   ///< whether the whole one, when it was first shown, required a gradient
  Tensor previous_grad = {};  ///< Stage::none: the mean that leaf.grad() was before this pass
  /// The sum of the gradients of passes that were not averaged, if UnitOptions::reduce is wider
  /// than the dtype of `full`; otherwise grad() of `full` is that sum. Undefined if there is none.
  Array accumulated = {};
  /// This rank's part of the shard group's sums, not yet summed over the replicas.
  Array unreduced = {};
  Tensor shown = {};           ///< the view in the module while parameters are summoned
  bool lost_gradient = false;  ///< the view got a gradient, and no shard has it
  uint32_t seen = 0;           ///< the version of the storage of `full` when a forward began

  /// Whether this rank has a gradient of the whole parameter that is not averaged.
  bool has_own_gradient() const { return full.grad().defined() || accumulated.defined(); }
};

/// A view of a parameter in a flat parameter `flat`, with the parameter's shape, and with its
/// Partition of a larger parameter if it has one.
Tensor whole_of(const UnitParameter& parameter, const Array& flat);

/// Calls the hooks that a program registered on the leaf by Tensor::register_hook() with this
/// rank's gradient of the whole parameter, before it is averaged, as under DDP. Returns what they
/// put in its place; undefined: nothing.
Tensor apply_leaf_hooks(const UnitParameter& parameter, const Tensor& gradient);

/// Elements of one parameter, and the world ranks that hold them.
struct HeldPart {
  Chunk part;
  std::vector<int> ranks;
};

class Unit {
 public:
  /// Shards the parameters: from now on every parameter's leaf holds its shard. If a leaf already
  /// holds boxes of a larger parameter, its shard is an interval of the boxes' elements, and only
  /// the boxes are gathered.
  Unit(std::string name, std::vector<UnitParameter> parameters, const UnitOptions& options,
       const std::shared_ptr<CommunicatorGroup>& group);

  const std::string& name() const { return name_; }
  /// Called when the sharded module of this unit is nested in another one, with its path there, or
  /// the paths of the modules of a group.
  void nest(const std::vector<std::string>& paths, const std::shared_ptr<DiskOrder>& disk_order);
  /// The file slot of its shards; null: they are in no file.
  DiskShard* disk_shard() const { return target_->disk(); }
  std::vector<UnitParameter>& parameters() { return parameters_; }
  const std::vector<UnitParameter>& parameters() const { return parameters_; }
  /// Elements of all parameters.
  int64_t numel() const;
  /// Elements of the flat parameter: those of all parameters, the gaps between them and, if it is
  /// sharded, zeros at its end up to a multiple of 8 elements for each rank of the groups.
  int64_t flat_numel() const { return flat_.counts.total(); }
  /// This rank's part of the flat parameter; its last elements may be the zeros at the end.
  const Chunk& own() const { return flat_.own; }
  /// All ranks' parts of a parameter that are not empty, in the order of its elements. They follow
  /// from the sizes of the unit and of its groups, without communication.
  std::vector<HeldPart> parts_of(const UnitParameter& parameter) const;

  /// \name Parameters. Calling twice is harmless.
  /// \{
  /// Begins to gather the whole parameters, unless they are gathered and have the shards' values.
  void unshard();
  /// Waits until they are gathered, and makes the module show them.
  void wait_unsharded();
  /// Frees the whole parameters and makes the module show the shards, as rest() does.
  void reshard();
  /// Makes the module show the shards; the whole parameters stay gathered for the next
  /// wait_unsharded(). Changes that the program made to the whole parameters are kept: written
  /// values, and requires_grad.
  void rest();
  bool sharded() const { return state_ == State::sharded; }
  /// Whether shards have memory of their own, so that reshard() frees the whole parameters.
  bool owns_storage() const { return flat_.owns_storage; }
  /// The device on which it computes.
  Device device() const { return parameters_.front().full.device(); }
  /// Whether shards lie in host memory and the unit computes on a device.
  bool crosses_to_device() const { return target_->crosses(); }
  /// Waits until no copy reads the shards any more, so that they may be written, and until shards
  /// that are kept in a file have been written to it.
  void wait_offload() { target_->wait(); }
  /// Begins to read shards that lie in a file, if the next gathering needs them.
  void read_ahead() const;
  /// Whether a gathering is under way.
  bool moves() const { return state_ == State::gathering; }
  /// Whether the gathered values are older than those of the shards.
  bool stale() const { return state_ != State::sharded && flat_.is_stale(); }
  /// Makes the module's parameters views of this flat parameter.
  void show(const Array& flat);
  void show_shards();
  /// Makes the module show the shards again, which take over what was done to the views: frozen or
  /// not, and hooks.
  void hide();
  /// Throws an Error if the program has replaced a parameter by another tensor.
  void check_slots(const char* op) const;
  /// Notes which whole parameters a forward has written since wait_unsharded(); returns true if
  /// there are any.
  bool note_writes();
  /// Returns the notes as text, with a hash of the written values, and clears them; empty: none.
  std::string take_writes() { return std::exchange(writes_, {}); }
  /// Converts all parameters and their gradients to a dtype and device; only while sharded.
  void convert(DType dtype, Device device);
  /// The storage of the flat parameter.
  const core::Storage& storage() const { return flat_.whole.storage(); }
  /// All parameters, gathered into new memory in the shards' dtype.
  Array gather_whole() const;
  /// Copies this rank's part of such an array into the shard, if anything was `written` to the
  /// array, and notes that as note_writes() does.
  void take_over_whole(const Array& whole, bool written);
  /// \}

  /// \name Gradients
  /// \{
  /// Packs the gradients of all parameters that have one, or have an earlier one that is not yet
  /// added up over the replicas, and begins to average them over the ranks. `when` matters only in
  /// hybrid sharding.
  void begin_reduce(AllReduce when = AllReduce::now);
  /// Stage::none: from now on this hook reduces the gradients, in place of the all_reduce. The unit
  /// is bucket `index`.
  void use_hook(std::shared_ptr<const CommHook> hook, int index, bool is_last);
  /// Runs the next step of a hook's reduction that is under way.
  void advance_hook();
  /// Begins the all-reduce over the replicas for a reduction to which sums of earlier passes are
  /// added first. Returns false if there is none to begin.
  bool begin_all_reduce();
  /// Waits until the gradients are averaged, and adds them to the leaves' gradients. Returns false
  /// if they are still to be added up over the replicas.
  bool end_reduce();
  /// Whether averaged gradients are being copied to the offload target. add_arrived() waits for
  /// them, and adds them to the leaves' gradients.
  bool is_arriving() const { return !arriving_.empty(); }
  void add_arrived();
  /// Every parameter that is trained has its gradient of the backward pass now running.
  bool is_complete();
  /// None has.
  void begin_pass();
  /// Moves gradients that are not averaged at the end of this pass into UnitParameter::accumulated,
  /// where UnitOptions::reduce is wider than their dtype.
  void accumulate();
  /// Whether a reduction that began now would have something to send.
  bool has_gradients(AllReduce when) const;
  /// After a backward that threw: drops gradients that are being averaged, whole gradients, and
  /// sums that are still to be added up over the replicas.
  void drop_gradients();
  /// \}

 private:
  // sharded: the module shows shards. gathering: the flat parameter is being gathered. gathered: it
  // has its values, and the module shows shards. unsharded: the module shows whole parameters.
  enum class State : uint8_t { sharded, gathering, gathered, unsharded };

  bool is_of_root() const;
  void take_over();
  int64_t place_parameters();
  void cut_into_shards();
  void shard_parameters();
  bool has_own_storage(DType dtype) const;
  void set_leaf(const UnitParameter& parameter) const;
  void make_whole(DType dtype, Device device);
  void fill(const UnitParameter& parameter, const Array& target, int64_t first) const;
  // The elements of a parameter that this rank owns, which begin with element `first`, and their
  // place in the shard.
  struct ShardPart {
    int64_t first = 0;
    Chunk place = {};
  };
  ShardPart shard_of(const UnitParameter& parameter) const;
  bool needs_gather() const;
  bool goes_whole(int64_t elements, size_t parameters) const;
  const ChunkCounts& counts_of(const std::vector<size_t>& parameters);
  void pack(GradientReduction& reduction);
  void keep_whole();
  void end_within(GradientReduction& reduction);
  void each_part(const GradientReduction& reduction,
                 const std::function<void(UnitParameter&, const Array&)>& fn);
  void give_gradient(UnitParameter& parameter, const Array& gradient);
  void add_gradient(UnitParameter& parameter, const Array& gradient) const;

  std::string name_;
  std::vector<UnitParameter> parameters_;
  UnitOptions options_;
  FlatParameter flat_;
  State state_ = State::sharded;
  std::unique_ptr<OffloadTarget> target_;  // where flat_.shard lies
  std::unique_ptr<Gather> gather_;         // the all-gather
  Reduce reduce_;  // the reduce-scatter; null: not needed, see make_reduce()
  std::unique_ptr<GradientReduction> reduction_;  // the reduction under way; or null
  std::vector<std::pair<UnitParameter*, Array>>
      arriving_;  // gradients that are being copied to the offload target
  std::pair<std::vector<size_t>, ChunkCounts>
      packed_;           // parameters packed last, where not all were
  std::string writes_;   // of forwards, which no rank was told of yet
  size_t complete_ = 0;  // parameters, from the first on, that is_complete() need not ask again
};

}  // namespace hero::dist

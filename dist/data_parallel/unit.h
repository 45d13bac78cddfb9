#pragma once
// Unit: parameters that are cut, gathered and reduced together, one collective for all of them.
// FSDP2 has a name for it, the parameter group. The parameters lie one behind the other; rank r
// owns the r-th of N equal parts of that flat parameter (flat_parameter.h), so a rank's shard of
// one parameter is a slice of it, perhaps empty. Zeros fill gaps of fewer than 8 elements behind
// parameters of odd sizes and, at the end, what makes the parts equal: fewer than 8 elements a
// rank. No shard contains them. unshard() begins the all-gather (all_gather.h), begin_reduce() the
// reduce-scatter (reduce_scatter.h); the shard lies meanwhile at an offload target
// (offload_target.h), if there is one. Who calls them when is the schedule's (unit_schedule.h),
// which has the prefetch, too.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/data_parallel/all_gather.h>
#include <hero/dist/data_parallel/offload_target.h>
#include <hero/dist/data_parallel/owners.h>
#include <hero/dist/data_parallel/reduce_scatter.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// The name of the unit of the sharded module itself.
inline constexpr std::string_view kRoot = "root";
/// What the name of a unit ends with whose parameters are frozen, beside a unit of the same module
/// whose parameters are trained.
inline constexpr std::string_view kFrozen = " (frozen)";

/// One parameter of a unit.
struct UnitParameter {
  std::string name;
  std::vector<std::string> names = {};  ///< more than one where it is tied
  std::vector<nn::Slot*> slots = {};    ///< every place where the module knows it
  Tensor leaf = {};  ///< what optimizers hold: its shard, or itself under Stage::none
  Tensor full = {};  ///< what forward computes with; `leaf` itself under Stage::none
  Shape shape = {};  ///< of `full`
  std::shared_ptr<const Partition> former = {};  ///< what `full` holds of a larger parameter
  std::shared_ptr<Owners> owners = {};           ///< of its shards
  Chunk place = {};                              ///< its elements in the flat parameter
  size_t id = 0;                                 ///< its place among all parameters of the module
  bool watched = false;                          ///< `full` tells when its gradient is complete
  bool ready = false;                            ///< it is, in the backward pass now running
  bool trains = false;  ///< whether `full` required a gradient when the module began to show it
  Tensor previous_grad = {};  ///< Stage::none: the mean that leaf.grad() was before this pass
  Array unreduced = {};       ///< this rank's part of its group's sums that the replicas wait for
  Tensor shown = {};          ///< what the module shows while all parameters are summoned
  uint32_t seen = 0;          ///< the version of the storage of `full` when a forward began
};

/// A view of a parameter in a flat parameter `flat`, with the parameter's shape, and with its place
/// in a larger one if it was a shard of one before it was cut.
Tensor whole_of(const UnitParameter& parameter, const Array& flat);

/// Elements of one parameter, and who holds them: numbers in the whole world.
struct HeldPart {
  Chunk part;
  std::vector<int> ranks;
};

class Unit {
 public:
  /// Cuts the parameters' values; every parameter's leaf holds its shard from now on. A leaf may
  /// hold boxes of a larger parameter: its shard is then an interval of these boxes' elements, and
  /// what is gathered are the boxes.
  Unit(std::string name, std::vector<UnitParameter> parameters, const UnitOptions& options,
       const std::shared_ptr<GroupOwners>& owners);

  const std::string& name() const { return name_; }
  /// The module that was sharded with it has become a part of another one, at this path; or the
  /// modules of a group, at these.
  void nest(const std::vector<std::string>& paths, const std::shared_ptr<DiskOrder>& disk_order);
  /// Where its shards lie in a file; null: they do not.
  DiskShard* disk_shard() const { return target_->disk(); }
  std::vector<UnitParameter>& parameters() { return parameters_; }
  const std::vector<UnitParameter>& parameters() const { return parameters_; }
  /// Elements of all parameters.
  int64_t numel() const;
  /// Elements of the flat parameter: those, gaps between them and, where it is cut, zeros at its
  /// end up to a multiple of 8 elements for each rank of the groups.
  int64_t flat_numel() const { return flat_.counts.total(); }
  /// This rank's part of the flat parameter, of which the last elements may be those zeros.
  const Chunk& own() const { return flat_.own; }
  /// All ranks' parts of a parameter that are not empty, in the order of its elements. They follow
  /// from the sizes of the unit and of its groups, so nobody needs to be asked.
  std::vector<HeldPart> parts_of(const UnitParameter& parameter) const;

  /// \name Parameters. Calling twice is harmless.
  /// \{
  /// Begins to gather the whole parameters, where they are not there or no longer true.
  void unshard();
  /// Returns when they are there, and lets the module see them.
  void wait_unsharded();
  /// Frees what was gathered; the module sees the shards, of which the same holds as of rest().
  void reshard();
  /// The module sees the shards, and what was gathered stays for the next wait_unsharded(). What
  /// the program did meanwhile with the whole parameters holds: values that it wrote, and whether
  /// they are trained.
  void rest();
  bool sharded() const { return state_ == State::sharded; }
  /// Shards have memory of their own, so that there is something to free.
  bool owns_storage() const { return flat_.owns_storage; }
  /// Where it computes.
  Device device() const { return parameters_.front().full.device(); }
  /// Shards lie in the host's memory and the unit computes on a device.
  bool crosses_to_device() const { return target_->crosses(); }
  /// Returns when no copy reads the shards any more, so that they may be written, and when those
  /// that belong into a file are there.
  void wait_offload() { target_->wait(); }
  /// Begins to read shards that lie in a file, where the next gathering will need them.
  void read_ahead() const;
  /// Gathering moves bytes now.
  bool moves() const { return state_ == State::gathering; }
  /// What is gathered are values that the shards no longer have.
  bool stale() const { return state_ != State::sharded && flat_.is_stale(); }
  /// Lets the module see the parameters of this flat one.
  void show(const Array& flat);
  void show_shards();
  /// Notes what a forward wrote to the whole parameters since wait_unsharded(); true if it did.
  bool note_writes();
  /// What was noted, in words and with a hash of the values that are there now; empty: nothing.
  std::string take_writes() { return std::exchange(writes_, {}); }
  /// All parameters change dtype and device, their gradients with them; only while sharded.
  void convert(DType dtype, Device device);
  /// Of the flat parameter.
  const core::Storage& storage() const { return flat_.whole.storage(); }
  /// All parameters, gathered into new memory in the shards' dtype.
  Array gather_whole() const;
  /// Takes this rank's part of such an array over, if anything was `written` to it.
  void take_over_whole(const Array& whole, bool written);
  /// \}

  /// \name Gradients
  /// \{
  /// Packs the gradients of all parameters that have one, or had one that the replicas wait for,
  /// and begins to average them over the ranks. Only a hybrid asks when.
  void begin_reduce(AllReduce when = AllReduce::now);
  /// Stage::none: reductions go by this hook from now on, in place of the all_reduce. The unit is
  /// bucket `index`.
  void use_hook(std::shared_ptr<const CommHook> hook, int index, bool is_last);
  /// The next step of a hook's reduction that is under way.
  void advance_hook();
  /// Begins the sums over the replicas where sums of passes before are added first; true when it
  /// has begun them, false where there is nothing to begin.
  bool begin_all_reduce();
  /// Returns when they are averaged, and adds them to the leaves' gradients; false where the
  /// replicas wait for them.
  bool end_reduce();
  /// Averaged gradients are on their way to the offload target; add_arrived() waits for them, and
  /// adds them to the leaves'.
  bool is_arriving() const { return !arriving_.empty(); }
  void add_arrived();
  /// Whether a reduction that began now would have something to send.
  bool has_gradients(AllReduce when) const;
  /// Forgets gradients that are being averaged, whole ones, and those that the replicas wait for,
  /// after a backward that threw.
  void drop_gradients();
  /// \}

 private:
  // What the module sees and where the flat parameter is: on its way; there, while the module sees
  // shards; there and seen.
  enum class State : uint8_t { sharded, gathering, gathered, unsharded };

  bool is_of_root() const;
  void take_over();
  int64_t place_parameters();
  void shard_parameters();
  bool has_own_storage(DType dtype) const;
  void set_leaf(const UnitParameter& parameter) const;
  void make_whole(DType dtype, Device device);
  /// The program put another tensor in a parameter's place.
  void check_slots() const;
  void fill(const UnitParameter& parameter, const Array& target, int64_t first) const;
  // What this rank owns of a parameter: its number `first` and those behind it, and where they lie
  // in the shard.
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
  std::unique_ptr<OffloadTarget> target_;         // where flat_.shard lies
  std::unique_ptr<Gather> gather_;                // the all-gather
  Reduce reduce_;                                 // the reduce-scatter; null: there is nobody else
  std::unique_ptr<GradientReduction> reduction_;  // under way; or null
  std::vector<std::pair<UnitParameter*, Array>>
      arriving_;  // gradients on their way to the offload target
  std::pair<std::vector<size_t>, ChunkCounts>
      packed_;          // parameters packed last, where not all were
  std::string writes_;  // of forwards, which no rank was told of yet
};

}  // namespace hero::dist

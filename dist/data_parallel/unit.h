#pragma once
// Unit: parameters that are cut, gathered and reduced together, one collective for all of them. The
// parameters lie one behind the other; rank r owns the r-th of N equal parts of that row, so a
// rank's shard of one parameter is a slice of it, perhaps empty. Zeros fill gaps of fewer than 8
// elements behind parameters of odd sizes and, at the end, what makes the parts equal: fewer than 8
// elements a rank. No shard contains them.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hero/autograd/leaves/partition.h>
#include <hero/dist/comm_hook.h>
#include <hero/dist/communicator.h>
#include <hero/dist/compress/quantized_sum.h>
#include <hero/dist/data_parallel/disk_home.h>
#include <hero/dist/data_parallel/home.h>
#include <hero/dist/data_parallel/owners.h>
#include <hero/dist/offload.h>
#include <hero/dist/quantize.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// What is cut into shards; each stage cuts what the one before it cuts, and one thing more.
enum class Stage : uint8_t { none, optimizer, gradients, parameters };
/// What users call it.
const char* strategy_name(Stage stage);

/// The name of the unit of the sharded module itself.
inline constexpr std::string_view kRoot = "root";
/// What the name of a unit ends with whose parameters are frozen, beside a unit of the same module
/// whose parameters are trained.
inline constexpr std::string_view kFrozen = " (frozen)";

/// When the sums of a hybrid's groups go on over the replicas. `later`: each rank keeps its part of
/// them, in float32 where they are halves, and adds them up until a reduction that is `now`.
enum class AllReduce : uint8_t { now, later };

/// The ranks among which a unit is cut and, in a hybrid, those that hold the same shard.
struct Groups {
  Communicator shard;
  Communicator replicas;  ///< undefined: none
  Communicator all = {};  ///< where there are replicas: all ranks, one replica behind the other

  /// Of the ranks that hold shard `i`, their numbers in the whole world.
  std::vector<int> holders(int i) const;
  int ranks() const { return shard.size() * (replicas.defined() ? replicas.size() : 1); }
};

struct UnitOptions {
  Stage stage = Stage::none;
  std::optional<DType> gathered = {};  ///< dtype of whole parameters; absent: that of the shards
  std::optional<DType> reduce = {};    ///< dtype in which gradients travel; absent: theirs
  Order order = Order::tree;           ///< in which gradients are added up
  double divide_by = 0.0;              ///< what their sum is divided by; 0: the number of ranks
  Device device = kCpu;                ///< where parameters made on meta get their bytes
  Offload offload = {};                ///< where shards lie while they are not needed
  Quantize quantize = {};              ///< Stage::parameters: what travels in a codec's bytes
  QuantizedRoute route = {};           ///< of its gradients
  std::shared_ptr<DiskOrder> disk_order = {};  ///< of the module's units, where that is a file
};

/// One parameter of a unit.
struct Member {
  std::string name;
  std::vector<std::string> names = {};  ///< more than one where it is tied
  std::vector<nn::Slot*> slots = {};    ///< every place where the module knows it
  Tensor leaf = {};  ///< what optimizers hold: its shard, or itself under Stage::none
  Tensor full = {};  ///< what forward computes with; `leaf` itself under Stage::none
  Shape shape = {};  ///< of `full`
  std::shared_ptr<const Partition> former = {};  ///< what `full` holds of a larger parameter
  std::shared_ptr<Owners> owners = {};           ///< of its shards
  Part place = {};                               ///< its elements in the unit's row
  size_t id = 0;                                 ///< its place among all parameters of the module
  bool watched = false;                          ///< `full` tells when its gradient is complete
  bool ready = false;                            ///< it is, in the backward pass now running
  bool trains = false;  ///< whether `full` required a gradient when the module began to show it
  Tensor aside = {};    ///< Stage::none: the mean that leaf.grad() was before this pass
  Array partial = {};   ///< this rank's part of its group's sums that the replicas wait for
  Tensor shown = {};    ///< what the module shows while all parameters are summoned
  uint32_t seen = 0;    ///< the version of the storage of `full` when a forward began
};

/// Elements of one parameter, and who holds them: numbers in the whole world.
struct HeldPart {
  Part part;
  std::vector<int> ranks;
};

class Unit {
 public:
  /// Cuts the members' values; every member's leaf holds its shard from now on. A leaf may hold
  /// boxes of a larger parameter: its shard is then an interval of these boxes' elements, and what
  /// is gathered are the boxes.
  Unit(std::string name, std::vector<Member> members, Groups groups, const UnitOptions& options,
       const std::shared_ptr<GroupOwners>& owners);

  const std::string& name() const { return name_; }
  /// The module that was sharded with it has become a part of another one, at this path; or the
  /// modules of a group, at these.
  void nest(const std::vector<std::string>& paths, const std::shared_ptr<DiskOrder>& disk_order);
  /// Where its shards lie in a file; null: they do not.
  DiskHome* disk_home() const { return disk_.get(); }
  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }
  /// Elements of all parameters.
  int64_t numel() const { return numel_; }
  /// Elements of the row: those, gaps between them and, where it is cut, zeros at its end up to a
  /// multiple of 8 elements for each rank of the groups.
  int64_t row() const { return total_; }
  /// This rank's part of the row, of which the last elements may be those zeros.
  const Part& own() const { return own_; }
  /// All ranks' parts of a member that are not empty, in the order of its elements. They follow
  /// from the sizes of the unit and of its groups, so nobody needs to be asked.
  std::vector<HeldPart> parts_of(const Member& member) const;

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
  bool owns_storage() const { return owns_storage_; }
  /// Where it computes.
  Device device() const { return members_.front().full.device(); }
  /// Shards lie in the host's memory and the unit computes on a device.
  bool has_home() const { return home_ != nullptr; }
  /// Returns when no copy reads the shards any more, so that they may be written, and when those
  /// that belong into a file are there.
  void wait_home();
  /// Begins to read shards that lie in a file, where the next gathering will need them.
  void read_ahead() const;
  /// Gathering moves bytes now.
  bool moves() const { return gathers_; }
  /// What is gathered are values that the shards no longer have.
  bool stale() const;
  /// Lets the module see whole parameters in `row`, in their order.
  void show(const Array& row);
  void show_shards();
  /// Notes what a forward wrote to the whole parameters since wait_unsharded(); true if it did.
  bool note_writes();
  /// What was noted, in words and with a hash of the values that are there now; empty: nothing.
  std::string take_writes() { return std::exchange(writes_, {}); }
  /// All parameters change dtype and device, their gradients with them; only while sharded.
  void convert(DType dtype, Device device);
  /// Of the gathered row.
  const core::Storage& storage() const { return full_.storage(); }
  /// All parameters, gathered into new memory in the shards' dtype.
  Array gather_row() const;
  /// Takes this rank's part of such a row over, if anything was written to the row.
  void scatter_row(const Array& row, bool written);
  /// \}

  /// \name Gradients
  /// \{
  /// Packs the gradients of all members that have one, or had one that the replicas wait for, and
  /// begins to average them over the ranks. Only a hybrid asks when.
  void begin_reduce(AllReduce when = AllReduce::now);
  /// Stage::none: the next reduction goes by the hook, in place of the all_reduce; null: no hook.
  void use_hook(const CommHook* hook, int index, bool is_last) {
    hook_ = hook;
    bucket_index_ = index;
    is_last_bucket_ = is_last;
  }
  /// The next step of a hook's reduction that is under way.
  void advance_hook();
  /// Begins the sums over the replicas where sums of passes before are added first; true when it
  /// has begun them, false where there is nothing to begin.
  bool begin_all_reduce();
  /// Returns when they are averaged, and adds them to the leaves' gradients; false where the
  /// replicas wait for them.
  bool end_reduce();
  /// Averaged gradients are on their way home; land() waits for them, and adds them to the leaves'.
  bool is_landing() const { return !landing_.empty(); }
  void land();
  /// Whether a reduction that began now would have something to send.
  bool has_gradients(AllReduce when) const;
  /// Forgets gradients that are being averaged, whole ones, and those that the replicas wait for,
  /// after a backward that threw.
  void drop_gradients();
  /// \}

 private:
  enum class State : uint8_t { sharded, gathering, unsharded };
  struct Reduction {
    AllReduce when = AllReduce::now;
    bool within = false;  // `work` is the sum of the group, which is not yet added to those before
    std::vector<size_t> members;
    bool as_row = false;  // they lie as in the row, with zeros for others
    Array bucket;         // all gradients, one behind the other
    Array own;            // this rank's part of their mean
    DType dtype = kFloat32;
    PartCounts counts;  // of the bucket: each rank's part of the packed gradients
    std::string name;
    Work work;
    Future hooked;  // in place of `work`, or of what `within` says of it
  };

  bool is_of_root() const;
  void take_over();
  void place_members();
  void cut(const UnitOptions& options);
  void set_leaf(const Member& member) const;
  void make_row(DType dtype, Device device);
  /// The program put another tensor in a parameter's place.
  void check_slots() const;
  void fill(const Member& member, const Array& target, int64_t first) const;
  /// The elements of a member that this rank owns, by their places in the row.
  Part owned(const Member& member) const;
  /// Gradients of so many members and elements are sent as the whole row.
  bool goes_as_row(int64_t elements, size_t members) const;
  /// How the packed gradients of these members are cut, as the row is.
  const PartCounts& counts_of(const std::vector<size_t>& members);
  void gather();
  void gather_from_home();
  void gather_quantized();
  void gather_bytes_from_home(const Array& mine);
  std::unique_ptr<core::Aside> before_gather(std::unique_ptr<core::Aside> aside) const;
  bool has_secondary() const;
  void keep_secondary();
  void reduce_quantized(Reduction& reduction, double divide_by);
  void copy_from_disk(const Array& mine) const;
  Array zeros_apart(DType dtype) const;
  std::unique_ptr<DiskHome> make_disk_home(const Array& shard) const;
  /// Shards are no slice of the row.
  bool is_apart() const { return home_ || disk_; }
  /// Shards were written since they were gathered last.
  bool is_changed() const;
  Array begin_down(const Array& gradient);
  void give_gradient(Member& member, const Array& gradient);
  void drop_landing();
  void pack(Reduction& reduction);
  GradBucket bucket_of(const Reduction& reduction, const CallOptions& mean) const;
  void keep_whole();
  void begin_reduce_over_replicas(Reduction& reduction);
  void begin_all_reduce(Reduction& reduction, const Work& after) const;
  void end_within(Reduction& reduction);
  void each_part(const Reduction& reduction, const std::function<void(Member&, const Array&)>& fn);
  void add_gradient(Member& member, const Array& gradient) const;

  std::string name_;
  std::vector<Member> members_;
  Groups groups_;
  UnitOptions options_;
  int64_t numel_ = 0, total_ = 0;
  Part own_;
  PartCounts counts_;           // of the row
  std::vector<size_t> packed_;  // members that were packed last, where not all were
  PartCounts packed_counts_;    // of their gradients
  bool owns_storage_ = false;
  State state_ = State::sharded;
  Array shard_;                     // this rank's part of the row
  Array full_;                      // the row
  Work gather_;                     // while state_ is gathering
  Array secondary_;                 // this rank's part within its host of the row; or none
  uint32_t secondary_version_ = 0;  // of shard_ when that was taken
  Array gathered_bytes_;            // of quantised shards, while they are on their way
  bool gathers_ = false;            // the gathering now under way moves bytes
  uint32_t shard_version_ = 0;      // of shard_ when full_ was last true
  uint32_t begun_version_ = 0;      // of shard_ when gathering began
  uint32_t full_version_ = 0;       // of full_ then
  std::unique_ptr<Reduction> reduction_;
  const CommHook* hook_ = nullptr;
  int bucket_index_ = 0;
  bool is_last_bucket_ = false;
  std::unique_ptr<Home> home_;      // of shard_, where it lies apart from full_; or null
  std::unique_ptr<DiskHome> disk_;  // of shard_, where it lies in a file; or null
  std::vector<std::pair<Member*, Array>> landing_;  // gradients on their way home
  std::string writes_;                              // of forwards, which no rank was told of yet
};

}  // namespace hero::dist

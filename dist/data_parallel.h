#pragma once
// DataParallel: a module that several ranks train, each on its own part of the batch. DDP, the
// stages of ZeRO and FSDP are strategies: each one shards one more kind of data than the previous
// one. A program changes one line to move from one strategy to the next.
//
//   dist::DDP ddp(model, world);                     // every rank holds everything
//   dist::ZeRO zero(model, world, {.stage = 1});     // optimizer states are sharded
//   dist::ZeRO zero(model, world, {.stage = 2});     // and gradients
//   dist::ZeRO zero(model, world, {.stage = 3});     // and parameters
//   dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});  // unit by unit
//
//   optim::AdamW adamw(model.parameters(), {.lr = 3e-4});  // before or after, under every strategy
//   ...
//   cross_entropy(model(tokens), targets).backward();      // gradients are averaged over the ranks
//   optim::clip_grad_norm(model.parameters(), 1.0);
//   adamw.step();
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/autograd/tensor.h>
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

class DataParallel;
class ShardedModule;
std::shared_ptr<ShardedModule> sharded_module_of(const DataParallel& parallel);  // internal to dist

/// Something that a unit did; see DataParallel::on_event().
struct Event {
  /// What it did.
  enum class Kind : uint8_t {
    gather,  ///< the unit began to gather its whole parameters
    use,     ///< the whole parameters are gathered, and the module computes with them
    free,    ///< the unit freed its whole parameters
    reduce,  ///< the unit began to average its gradients
    reduced  ///< the mean gradients have been added to those of its shards
  };
  Kind kind;                ///< what the unit did
  const std::string& unit;  ///< the name of the unit
};
/// "gather", "use", "free", "reduce" or "reduced".
const char* name(Event::Kind kind);

/// A unit: parameters that are gathered and reduced together in one collective.
struct UnitInfo {
  std::string name;  ///< the path of its module
  int64_t numel;     ///< elements of all its parameters
  /// Elements of the flat parameter: those of the parameters, padding after parameters whose size
  /// is no multiple of 8, and in sharded units zeros up to a multiple of 8 elements per rank.
  int64_t flat_numel;
  Chunk
      own;  ///< this rank's part of the flat parameter; in sharded units all ranks have equal parts
  std::vector<std::string> parameters;  ///< the names of its parameters
};

/// Options of DataParallel::summon_full_parameters().
struct SummonOptions {
  /// True: if anything was written to the whole parameters of a unit, its shards take over their
  /// values.
  bool writeback = true;
};

/// While it lives, the module has its whole parameters, in their own dtype, and needs the memory
/// for them. Gradients and optimizer steps still belong to the shards meanwhile. Its constructor is
/// a collective, its destructor is not. Meanwhile, a forward pass, another FullParameters and
/// full_state_dict() throw an Error, and no backward pass may run. What is frozen, hooked or
/// written stays so, and all ranks must write the same; a gradient or another tensor that a whole
/// parameter was given is an Error in the next forward or step.
class FullParameters {
 public:
  /// For DataParallel::summon_full_parameters().
  FullParameters(std::shared_ptr<ShardedModule> sharded, const SummonOptions& options);
  ~FullParameters();
  FullParameters(FullParameters&&) = default;
  FullParameters& operator=(FullParameters&&) = delete;

 private:
  std::shared_ptr<ShardedModule> sharded_;
  std::vector<std::vector<Array>> flat_parameters_;  // one for each unit, of each sharded module
  std::vector<uint32_t> versions_;  // of all flat parameters, when they were gathered
  bool writeback_;
};

/// While it lives, backward adds up gradients on each rank by itself; the first backward pass after
/// it averages the sum. It needs the memory of whole gradients. Several of them may end in any
/// order.
class NoSync {
 public:
  /// For DataParallel::no_sync().
  explicit NoSync(std::shared_ptr<ShardedModule> sharded);
  ~NoSync();
  NoSync(NoSync&&) = default;
  NoSync& operator=(NoSync&&) = delete;

 private:
  std::shared_ptr<ShardedModule> sharded_;
};

/// The common base of DDP, ZeRO and FSDP. It is a handle, which you may drop, since the module
/// itself keeps what belongs to the strategy. Between two steps the parameters() of a sharded
/// module are its shards: leaves with one dimension, perhaps empty, that partition() describes.
/// They are the same tensors that the module had before, so an optimizer that was made then keeps
/// working. In forward and backward the module sees whole parameters. If forward or backward
/// throws, it throws on every rank, and all parameters are shards again, as between two steps.
class DataParallel {
 public:
  // No move is declared, so that a handle that was moved from still refers to the same object.
  DataParallel(const DataParallel&) = default;
  DataParallel& operator=(const DataParallel&) = default;

  /// Calls module()(x).
  Tensor operator()(const Tensor& x) const { return module()(x); }
  /// The module.
  nn::Module& module() const;
  /// What an optimizer steps on this rank: module().parameters(), between two steps.
  std::vector<Tensor> parameters() const;

  /// Adds up gradients without averaging them, while the result lives.
  [[nodiscard]] NoSync no_sync() const { return NoSync(sharded_); }
  /// Turns the averaging of gradients off (false) or on (true) for all later backward passes, as
  /// no_sync() does while its result lives. Off, gradients of micro-batches are only added up.
  void set_requires_gradient_sync(bool on) const;
  /// Does the same for the units of the module at a path and below it: their gradients are averaged
  /// if both settings are on. For fully_shard() and ZeRO-3.
  void set_requires_gradient_sync(bool on, const std::string& path) const;
  /// For hybrid sharding: false for micro-batches whose gradients are only added up within each
  /// group of shards. Every rank keeps its shard of these sums, in float32 if gradients have half
  /// precision, and the next backward pass with the setting on averages them over the replicas: for
  /// n bytes of gradients, G shards and H replicas a rank sends these 2 n / G (H - 1) / H bytes
  /// once per step instead of once per micro-batch. The bits are those of the groups' sums, added
  /// up in the order of the passes and then over the replicas in Order::tree. An Error in backward
  /// drops the sums that are waiting. On every other strategy it changes nothing, as in PyTorch,
  /// because shards have no replicas there.
  void set_requires_all_reduce(bool on) const;
  /// Does the same for the units of the module at a path and below it: their gradients are averaged
  /// over the replicas if both settings are on. For fully_shard() and ZeRO-3.
  void set_requires_all_reduce(bool on, const std::string& path) const;
  /// Sets FSDPOptions::reshard_after_forward anew, between two steps, for the units of the module
  /// at a path and below it ("": all units): false for those that have the memory to stay gathered
  /// until their backward. All ranks must set the same. For fully_shard() and ZeRO-3.
  /// \snippet test_examples_ranks.cpp set_reshard_after_forward
  void set_reshard_after_forward(bool on, const std::string& path = "") const;
  /// Sets whether the units of the module at a path and below it ("": all units) are freed after
  /// backward, as they are at the beginning. False: they stay gathered for the next forward, so
  /// that only the first of several passes in a step gathers them, and the memory of whole
  /// parameters is needed until then. Parameters that the optimizer has changed are gathered anew.
  /// All ranks must set the same, between two steps. For fully_shard() and ZeRO-3.
  /// \snippet test_examples_ranks.cpp set_reshard_after_backward
  void set_reshard_after_backward(bool on, const std::string& path = "") const;
  /// Sets what is gathered ahead when the forward of the module at `path` begins: the units of the
  /// modules at these paths, in this order, in place of the next ones of the pass before. So the
  /// first pass, and a pass that uses modules in another order than the last one, gather ahead as
  /// well, and a module may have several in flight; each of them needs the memory of its unit from
  /// then on. An empty list gathers nothing ahead there. All ranks must set the same, between two
  /// steps. For fully_shard() and ZeRO-3. It is PyTorch's function of this name.
  /// \snippet test_examples_ranks.cpp set_modules_to_forward_prefetch
  void set_modules_to_forward_prefetch(const std::string& path,
                                       const std::vector<std::string>& modules) const;
  /// Does the same for the moment when the backward of the module at `path` begins, in place of the
  /// modules whose forward came before it.
  void set_modules_to_backward_prefetch(const std::string& path,
                                        const std::vector<std::string>& modules) const;
  /// Begins to gather the units of the module at `path` and below it ("": all units), between two
  /// steps, and returns at once; the next forward pass uses them. A collective, for fully_shard()
  /// and ZeRO-3.
  void unshard(const std::string& path = "") const;
  /// Frees what unshard() gathered.
  void reshard(const std::string& path = "") const;
  /// Gathers the whole parameters, while the result lives. A collective.
  [[nodiscard]] FullParameters summon_full_parameters(const SummonOptions& options = {}) const {
    return FullParameters(sharded_, options);
  }
  /// Runs `body`, a loop over this rank's batches; ranks may have different numbers of batches. A
  /// rank whose body has ended takes part in the other ranks' steps with gradients of zero (the
  /// mean is still over all ranks), and after each of them it runs `step`, which must do what body
  /// does after backward. So all ranks end with bitwise the same parameters. For DDP and stages 1
  /// and 2 of ZeRO.
  void join(const std::function<void()>& body, const std::function<void()>& step) const;
  /// A copy of the whole module's state, on every rank, including parameters that are also divided
  /// over other axes of a mesh (tensor_parallel(), expert_parallel(), Pipeline). A collective of
  /// all ranks that have parts of it.
  nn::StateDict full_state_dict() const;
  /// The units, in order.
  std::vector<UnitInfo> units() const;
  /// Calls `fn` with everything that units do, in order, so that you can show it or measure its
  /// time. At Event::Kind::reduced the shards of the unit have their gradients: a program may step
  /// the shards and clear the gradients there, so that at most one unit has gradients.
  void on_event(const std::function<void(const Event&)>& fn) const;

 protected:
  /// For the strategies, which make the sharded module.
  explicit DataParallel(std::shared_ptr<ShardedModule> sharded) : sharded_(std::move(sharded)) {}
  std::shared_ptr<ShardedModule> sharded_;

  friend DataParallel make_data_parallel(std::shared_ptr<ShardedModule> sharded);
  friend std::shared_ptr<ShardedModule> sharded_module_of(const DataParallel& parallel);
};

}  // namespace hero::dist

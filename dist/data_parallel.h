#pragma once
// DataParallel: a module that several ranks train, each on its own part of the batch. DDP, ZeRO and
// FSDP are its rungs: each shards one thing more. A program changes one line to go from one to the
// next.
//
//   dist::DDP ddp(model, world);                     // every rank holds everything
//   dist::ZeRO zero(model, world, {.stage = 1});     // optimizer states are sharded
//   dist::ZeRO zero(model, world, {.stage = 2});     // and gradients
//   dist::ZeRO zero(model, world, {.stage = 3});     // and parameters
//   dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});  // unit by unit
//
//   optim::AdamW adamw(model.parameters(), {.lr = 3e-4});  // before or after, on every rung
//   ...
//   cross_entropy(model(tokens), targets).backward();      // gradients are averaged over the ranks
//   optim::clip_grad_norm(model.parameters(), 1.0);
//   adamw.step();
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/ladder/replica.h>

namespace hero::dist {

class DataParallel;
std::shared_ptr<Replica> replica_of(const DataParallel& parallel);  // for dist's own files

/// One unit: what is gathered and reduced in one collective.
struct UnitInfo {
  std::string name;
  int64_t numel;  ///< elements of all its parameters
  int64_t row;    ///< elements of what is gathered: those, gaps behind parameters of odd sizes and,
                  ///< where it is cut, zeros up to a multiple of 8 elements a rank
  Part own;       ///< this rank's part of the row; those of all ranks are equal where it is cut
  std::vector<std::string> parameters;
};

struct SummonOptions {
  bool writeback = true;  ///< what was written to the whole parameters is kept
};

/// Shows the module's whole parameters, in their own dtype, while it lives; costs their memory.
/// Making it is a collective, ending it is not. No forward or backward may run meanwhile.
class FullParameters {
 public:
  FullParameters(std::shared_ptr<Replica> replica, const SummonOptions& options);
  ~FullParameters();
  FullParameters(const FullParameters&) = delete;
  FullParameters& operator=(const FullParameters&) = delete;

 private:
  std::shared_ptr<Replica> replica_;
  std::vector<std::vector<Array>> rows_;  // of each replica that shards
  bool writeback_;
};

/// Lets backward add up gradients on each rank alone while it lives; the first backward after it
/// averages the sum. Costs the memory of whole gradients.
class NoSync {
 public:
  explicit NoSync(std::shared_ptr<Replica> replica);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::shared_ptr<Replica> replica_;
  std::vector<bool> previous_;  // of each replica
};

/// A handle; the module itself carries the rung, so the handle may be dropped. Between two steps a
/// sharded module's parameters() are its shards: leaves with one dimension, perhaps empty, that
/// partition() describes; they are the same tensors that the module had before, so an optimizer
/// made then goes on. Inside forward and backward the module sees whole parameters.
/// An Error in forward or backward, on all ranks, leaves everything between two steps.
class DataParallel {
 public:
  /// module()(x)
  Tensor operator()(const Tensor& x) const { return module()(x); }
  nn::Module& module() const { return replica_->module(); }
  /// What an optimizer steps on this rank: module().parameters() between two steps.
  std::vector<Tensor> parameters() const;

  [[nodiscard]] NoSync no_sync() const { return NoSync(replica_); }
  /// As no_sync(), from now on: false for micro-batches whose gradients are only added up.
  void set_requires_gradient_sync(bool on) const {
    for (Replica* each : replica_->all()) each->set_sync(on);
  }
  /// The same for the units of the module at a path and below it: their gradients are averaged
  /// where this and the other are on. fully_shard() and ZeRO-3.
  void set_requires_gradient_sync(bool on, const std::string& path) const {
    replica_->set_sync(on, path);
  }
  /// Hybrids: false for micro-batches whose gradients are added up within each group of shards
  /// alone. Every rank keeps its shard of these sums, in float32 where they are halves, and the
  /// next backward with it on averages them over the replicas, at 2 n / G (H - 1) / H bytes a step
  /// in place of a micro-batch. The bits are those of the groups' sums, added up in the order of
  /// the passes and then over the replicas in Order::tree. An Error in backward drops what waits.
  /// On every other rung it changes nothing, as in PyTorch: there are no replicas of shards.
  void set_requires_all_reduce(bool on) const {
    for (Replica* each : replica_->all()) each->set_all_reduce(on);
  }
  /// The same for the units of the module at a path and below it: their gradients go to the
  /// replicas where this and the other are on. fully_shard() and ZeRO-3.
  void set_requires_all_reduce(bool on, const std::string& path) const {
    replica_->set_all_reduce(on, path);
  }
  /// Begins to gather the units of the module at `path` and below it ("": all), between two steps,
  /// and returns at once: the next forward finds them. A collective; fully_shard() and ZeRO-3.
  void unshard(const std::string& path) const { replica_->unshard(path); }
  /// Frees what unshard() gathered.
  void reshard(const std::string& path) const { replica_->reshard(path); }
  [[nodiscard]] FullParameters summon_full_parameters(const SummonOptions& options = {}) const {
    return FullParameters(replica_, options);
  }
  /// Runs `body`, a loop over this rank's batches, of which ranks may have different numbers. A
  /// rank whose body has ended takes part in the others' steps with gradients of zero (the mean is
  /// still over all ranks) and runs `step` after each, which does what body does after backward; so
  /// all ranks end with the same bits. DDP and ZeRO stages 1 and 2.
  void join(const std::function<void()>& body, const std::function<void()>& step) const {
    replica_->join(body, step);
  }
  /// The state of the whole module, copied, on every rank; a collective.
  nn::StateDict full_state_dict() const;
  std::vector<UnitInfo> units() const;
  /// Called with everything that units do, in order, to show or to time it.
  /// At Event::Kind::reduced the unit's shards have their gradients: a program may step and clear
  /// them there, so that no more than one unit has gradients.
  void on_event(const std::function<void(const Event&)>& fn) const {
    for (Replica* each : replica_->all()) each->set_events(fn);
  }

 protected:
  explicit DataParallel(std::shared_ptr<Replica> replica) : replica_(std::move(replica)) {}
  std::shared_ptr<Replica> replica_;

  friend DataParallel make_data_parallel(std::shared_ptr<Replica> replica);
  friend std::shared_ptr<Replica> replica_of(const DataParallel& parallel);
};

}  // namespace hero::dist

#pragma once
// The all-gather of a unit, which fills its whole flat parameter. Which kind of Gather a unit has
// follows from its options and is chosen once, as is its offload target (offload_target.h), from
// which the shards are read.
#include <memory>
#include <string>

#include <hero/dist/data_parallel/offload_target.h>

namespace hero::dist {

/// The base class gathers the shards as they are, or in the dtype of the flat parameter.
class Gather {
 public:
  /// Among the ranks of `group`, of shards that lie at `target`.
  Gather(Communicator group, OffloadTarget& target) : group_(std::move(group)), target_(target) {}
  virtual ~Gather() = default;
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  /// Begins to write the values of all ranks' shards to flat.whole; `unit` is the call's name.
  virtual void begin(const std::string& unit, const FlatParameter& flat);
  /// Waits until flat.whole has these values.
  virtual void wait(const FlatParameter& flat);
  /// Waits until no call is under way any more; flat.whole may then have any values.
  virtual void abandon();
  /// Whether begin() will read the shards.
  virtual bool reads_shards(const FlatParameter& /*flat*/) const { return true; }
  /// Called before flat.whole, which has the values of all shards, is freed.
  virtual void before_free(const FlatParameter& /*flat*/) {}

 protected:
  Communicator group_;
  OffloadTarget& target_;
  Work work_;
};

std::unique_ptr<Gather> make_gather(const UnitOptions& options, OffloadTarget& target);

}  // namespace hero::dist

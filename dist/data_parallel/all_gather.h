#pragma once
// The all-gather of a unit: how its flat parameter becomes whole. Which of them it is follows from
// the options and is chosen once, with where the shards come from (offload_target.h).
#include <memory>
#include <string>

#include <hero/dist/data_parallel/offload_target.h>

namespace hero::dist {

/// This one gathers the shards as they are, or in the dtype of the flat parameter.
class Gather {
 public:
  /// Among the ranks of `group`, of shards that lie at `target`.
  Gather(Communicator group, OffloadTarget& target) : group_(std::move(group)), target_(target) {}
  virtual ~Gather() = default;
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  /// Begins to write the values of all ranks' shards to flat.whole; `unit` is the call's name.
  virtual void begin(const std::string& unit, const FlatParameter& flat);
  /// Returns when they are there.
  virtual void wait(const FlatParameter& flat);
  /// Returns when nothing is under way any more; flat.whole may have any values.
  virtual void abandon();
  /// begin() will read the shards.
  virtual bool reads_shards(const FlatParameter& /*flat*/) const { return true; }
  /// flat.whole has the values of all shards and is about to be freed.
  virtual void before_free(const FlatParameter& /*flat*/) {}

 protected:
  Communicator group_;
  OffloadTarget& target_;
  Work work_;
};

std::unique_ptr<Gather> make_gather(const UnitOptions& options, OffloadTarget& target);

}  // namespace hero::dist

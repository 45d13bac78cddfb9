#pragma once
// CommunicatorGroup: the ranks of a Communicator as the RankGroup of shards.
#include <memory>
#include <utility>
#include <vector>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/communicator.h>

namespace hero::dist {

/// The ranks of a group, and those of other groups that hold the same parts. Made by of() or
/// std::make_shared.
class CommunicatorGroup : public RankGroup, public std::enable_shared_from_this<CommunicatorGroup> {
 public:
  explicit CommunicatorGroup(Communicator group, Communicator replicas = {})
      : group_(std::move(group)), replicas_(std::move(replicas)) {}
  /// Returns the same object for the same groups as long as it lives, so that a collective for the
  /// leaves of several modules is made once.
  static std::shared_ptr<CommunicatorGroup> of(const Communicator& group,
                                               const Communicator& replicas);
  void declare(const std::string& what) override;
  void add_up(const Array& words) override;
  void largest(const Array& x) override;
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void all_reduce(const Array& x, const char* op) override;
  void all_gather(const Array& output, const Array& input, const char* op) override;
  void reduce_scatter(const Array& output, const Array& input, const char* op) override;

  /// The group of leaves that had a group before they were cut among these ranks: these ranks and,
  /// for each of them, those of the former group, which ask one after the other. The same object
  /// for the same `former`, as long as it lives, so that one collective serves all such leaves.
  /// Without a former group it is this group.
  std::shared_ptr<RankGroup> together_with(const std::shared_ptr<RankGroup>& former);

 private:
  Communicator group_, replicas_;
  // Results of together_with(), by the former group.
  std::vector<std::pair<const RankGroup*, std::weak_ptr<RankGroup>>> pairs_ = {};
};

}  // namespace hero::dist

#pragma once
// GroupOwners: the ranks among which a module's parameters are sharded, as the Owners of their
// shards.
#include <memory>
#include <utility>
#include <vector>

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/communicator.h>

namespace hero::dist {

/// The ranks of a group, and those of other groups that hold the same parts. Made by of() or
/// std::make_shared.
class GroupOwners : public Owners, public std::enable_shared_from_this<GroupOwners> {
 public:
  explicit GroupOwners(Communicator group, Communicator replicas = {})
      : group_(std::move(group)), replicas_(std::move(replicas)) {}
  /// Returns the same object for the same groups as long as it lives, so that a collective for the
  /// leaves of several modules is made once.
  static std::shared_ptr<GroupOwners> of(const Communicator& group, const Communicator& replicas);
  void declare(const std::string& what) override;
  void add_up(const Array& words) override;
  void largest(const Array& x) override;
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void all_reduce(const Array& x, const char* op) override;
  void all_gather(const Array& output, const Array& input, const char* op) override;
  void reduce_scatter(const Array& output, const Array& input, const char* op) override;

  /// The owners of leaves that had owners before they were cut among these ranks: these and, for
  /// each of them, the former ones, which ask one after the other. The same object for the same
  /// `former`, as long as it lives, so that one collective serves all such leaves. Without former
  /// owners they are these ranks alone.
  std::shared_ptr<Owners> together_with(const std::shared_ptr<Owners>& former);

 private:
  Communicator group_, replicas_;
  // Results of together_with(), by the former owners.
  std::vector<std::pair<const Owners*, std::weak_ptr<Owners>>> pairs_ = {};
};

}  // namespace hero::dist

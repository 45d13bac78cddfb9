#pragma once
// SharedSequence: a sequence divided among the ranks of context parallelism.
#include <memory>
#include <vector>

#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/nn/module.h>
#include <hero/nn/sequence.h>

namespace hero::dist {

/// [note: runs of a sequence] A query sees the keys before it, so the last positions cost most. A
/// sequence is cut into 2 w runs of equal length, and slice i of w has the runs i and 2 w - 1 - i:
/// all slices cost the same. Of c ranks, rank r has slices r w / c ... (r + 1) w / c - 1,
/// concatenated.
class SharedSequence : public nn::SequencePart {
 public:
  /// `slice_count` is a multiple of the number of ranks.
  SharedSequence(const Communicator& group, int slice_count);

  /// Called within a forward in which all ranks of the group take part: the ranks compare their
  /// whole x.
  Tensor take(const Tensor& x, int64_t dim) const override;
  /// Does the same without comparing x.
  Tensor part_of(const Tensor& x, int64_t dim) const;
  std::vector<int64_t> begins(int64_t T) const override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options) const override;
  int slices() const override { return slice_count_ / group_.size(); }
  std::vector<Tensor> copies(const Tensor& parameter) const override;
  std::shared_ptr<void> keep_copies(const Tensor& parameter) const override;
  Tensor mean(const std::vector<Tensor>& sums, const Tensor& count) const override;

  int slice_count() const { return slice_count_; }
  const std::shared_ptr<CommunicatorGroup>& rank_group() const { return rank_group_; }
  /// Reorders x, which has the positions of all ranks along `dim`, rank after rank, to the order of
  /// positions.
  Tensor in_order(const Tensor& x, int dim) const;

 private:
  struct Kept {
    Tensor parameter;
    std::vector<Tensor> copies;
  };
  int64_t run_length(int64_t T) const;

  Communicator group_;
  std::shared_ptr<CommunicatorGroup> rank_group_;
  std::shared_ptr<RankGroup> alone_;  // this rank, for sums over its slices
  int slice_count_;
  mutable std::weak_ptr<Kept> kept_;
};

/// Makes the module compute each slice of its inputs' positions (dimension 1) separately, with
/// copies of its parameters.
void compute_in_slices(nn::Module& module, const std::shared_ptr<const SharedSequence>& sequence);

}  // namespace hero::dist

#pragma once
// Sequences whose positions lie with several ranks: what attention and a GPT ask then. The ranks
// are those of dist::context_parallel(). T positions here, of one sequence.
#include <memory>
#include <vector>

#include <hero/autograd/nn_ops.h>

namespace hero::nn {

/// The positions that this rank has of every sequence, as one or more runs of neighbours, all
/// equally long and laid one behind the other; the other ranks have the others.
class SequencePart {
 public:
  SequencePart() = default;
  SequencePart(const SequencePart&) = delete;
  SequencePart& operator=(const SequencePart&) = delete;
  virtual ~SequencePart() = default;

  /// This rank's positions along `dim` of x, which all ranks have whole. An Error where they do not
  /// divide.
  virtual Tensor take(const Tensor& x, int64_t dim) const = 0;
  /// The position in the whole sequence at which each run begins, where T positions are here.
  virtual std::vector<int64_t> begins(int64_t T) const = 0;
  /// Attention of the queries here, q [B, H, T, D], to the keys and values of all ranks, of which k
  /// and v [B, G, T, D] are those here: [B, H, T, D]. A collective. Takes is_causal, scale and
  /// enable_gqa; first_query is its own.
  virtual Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& options) const = 0;

  /// \name Slices: [note: slices of a rank] in autograd/collectives.h
  /// \{
  /// Equal parts of the T positions; products of weights and the losses are computed for each by
  /// itself.
  virtual int slices() const = 0;
  /// The parameter, once for each slice; their gradients are added up in a tree.
  virtual std::vector<Tensor> copies(const Tensor& parameter) const = 0;
  /// While the result lives copies() of this parameter are the same tensors: of one that is used in
  /// two places, each slice's gradients of both are added up first.
  virtual std::shared_ptr<void> keep_copies(const Tensor& parameter) const = 0;
  /// The mean of a loss over the positions of all ranks: sums of it over each slice, divided by
  /// `count`, the number of terms on all ranks. A collective. Its gradients are those of this
  /// rank's part, times the number of ranks: the mean over the ranks is that of the loss.
  virtual Tensor mean(const std::vector<Tensor>& sums, const Tensor& count) const = 0;
  /// \}
};

/// x [.., T, ..] slice by slice along `dim`.
std::vector<Tensor> slices_of(const SequencePart& part, const Tensor& x, int64_t dim);

}  // namespace hero::nn

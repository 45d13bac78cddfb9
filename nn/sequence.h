#pragma once
// Sequences whose positions are divided among several ranks: the interface that attention and a GPT
// use. The ranks are those of dist::context_parallel(). T positions of each sequence are on this
// rank.
#include <memory>
#include <vector>

#include <hero/autograd/ops/nn/nn.h>

namespace hero::nn {

/// The positions that this rank has of every sequence: one or more runs of consecutive positions,
/// all of the same length, one after the other. Other ranks have the other positions.
class SequencePart {
 public:
  SequencePart() = default;
  SequencePart(const SequencePart&) = delete;
  SequencePart& operator=(const SequencePart&) = delete;
  virtual ~SequencePart() = default;

  /// Takes this rank's positions along `dim` of x, which all ranks have whole. Throws an Error if
  /// the positions cannot be divided evenly.
  virtual Tensor take(const Tensor& x, int64_t dim) const = 0;
  /// The position in the whole sequence at which each run begins, if T positions are on this rank.
  virtual std::vector<int64_t> begins(int64_t T) const = 0;
  /// The attention [B, H, T, D] of this rank's queries q [B, H, T, D] to the keys and values of all
  /// ranks; k and v [B, G, T, D] are those of this rank. It is a collective. Of the options it
  /// takes is_causal, scale and enable_gqa; it sets first_query itself.
  virtual Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& options) const = 0;

  /// \name Slices: [note: slices of a rank] in autograd/ops/collectives.h
  /// \{
  /// How many equal parts the T positions have; products with weights and losses are computed for
  /// each part by itself.
  virtual int slices() const = 0;
  /// A copy of the parameter for each slice; the gradients of the copies are added up in a tree.
  virtual std::vector<Tensor> copies(const Tensor& parameter) const = 0;
  /// While the result lives, copies() returns the same tensors for this parameter: if it is used in
  /// two places, each slice's gradients from both are added up first.
  virtual std::shared_ptr<void> keep_copies(const Tensor& parameter) const = 0;
  /// The mean of a loss over the positions of all ranks, given its sum over each slice and `count`,
  /// the number of terms on all ranks. It is a collective. Its gradients are those of this rank's
  /// terms, times the number of ranks, so their mean over the ranks is the gradient of the loss.
  virtual Tensor mean(const std::vector<Tensor>& sums, const Tensor& count) const = 0;
  /// \}
};

/// The slices of x [.., T, ..] along `dim`.
std::vector<Tensor> slices_of(const SequencePart& part, const Tensor& x, int64_t dim);

}  // namespace hero::nn

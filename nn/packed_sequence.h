#pragma once
// Sequences of different lengths for recurrent layers. N sequences, T the longest length.
//
//   const auto packed = nn::pack_padded_sequence(x, lengths, {.batch_first = true});
//   const auto [output, h] = gru(packed);
//   const auto [padded, same_lengths] = nn::pad_packed_sequence(output, {.batch_first = true});
#include <optional>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::nn {

/// Sequences without padding, as pack_padded_sequence() makes them: the first steps of all, the
/// second steps of those that have one, and so on, the longest sequence first in each.
struct PackedSequence {
  Tensor data;                          ///< [sum of all lengths, ..]
  std::vector<int64_t> batch_sizes;     ///< [T]: how many sequences have this step
  std::vector<int64_t> sorted_indices;  ///< [N]: which sequence is first, second, ... in each step
  std::vector<int64_t> unsorted_indices;  ///< [N]: the place of each sequence in sorted_indices
};

/// Options of pack_padded_sequence() and pack_sequence().
struct PackOptions {
  bool batch_first = false;     ///< true: x is [N, T, ..] instead of [T, N, ..]
  bool enforce_sorted = false;  ///< true: lengths that do not descend are an Error
};
/// Packs padded sequences x [T, N, ..] of these lengths, which may be in any order (PyTorch wants
/// enforce_sorted = false for that). Throws an Error for a length outside [1, T].
/// \snippet test_examples_networks.cpp pack_padded_sequence
PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<int64_t>& lengths,
                                    const PackOptions& options = {});
/// Does the same with the lengths as a tensor [N] of integers.
PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                    const PackOptions& options = {});
/// Packs sequences [L, ..], which may have different L.
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = false);

/// Options of pad_packed_sequence() and pad_sequence().
struct PadOptions {
  bool batch_first = false;    ///< true: the result is [N, T, ..] instead of [T, N, ..]
  double padding_value = 0.0;  ///< the value of padding after the end of a sequence
  /// The size of the time dimension, for pad_packed_sequence(); the longest length when absent.
  std::optional<int64_t> total_length = {};
};
/// What pad_packed_sequence() returns.
struct PaddedSequences {
  Tensor output;   ///< [T, N, ..]
  Tensor lengths;  ///< [N], int64
};
/// Undoes pack_padded_sequence(): the sequences in their first order, with padding.
PaddedSequences pad_packed_sequence(const PackedSequence& packed, const PadOptions& options = {});

/// Stacks sequences [L, ..] of different L into [T, N, ..], with padding behind the shorter ones.
/// \snippet test_examples_networks.cpp pad_sequence
Tensor pad_sequence(const std::vector<Tensor>& sequences, const PadOptions& options = {});
/// Undoes pad_sequence(), given the lengths.
std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths,
                                   bool batch_first = false);

}  // namespace hero::nn

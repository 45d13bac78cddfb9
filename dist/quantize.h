#pragma once
// Quantize: what of FSDP's gathers and reductions travels in bytes of a codec.
#include <optional>

#include <hero/core/functions/codec.h>

namespace hero::dist {

/// ZeRO++, Wang et al., arXiv 2306.10209: three parts, each by itself or with the others. A unit's
/// row of n elements on N ranks is cut in parts of n / N.
struct Quantize {
  /// qwZ: shards are gathered in these bytes, forward and backward; every rank computes with what
  /// they say, its own part included, and steps its exact shards. A gathering sends (N - 1)
  /// encoded_bytes(codec, n / N) bytes.
  std::optional<core::Codec> weights = {};
  /// qgZ: each rank sends each rank its part of the gradients in these bytes, and adds up the parts
  /// that it gets in float32, in the order of ranks: one rounding, where a ring would round N - 1
  /// times. A reduction sends (N - 1) encoded_bytes(codec, n / N) bytes.
  std::optional<core::Codec> gradients = {};
  /// hpZ: of what forward gathered each rank keeps the part that is its own within its host, so
  /// that backward gathers between the ranks of a host alone: (G - 1) n / G elements, in the
  /// parameters' dtype, which none but this host's links carry; and n / G elements of memory until
  /// the next step.
  bool secondary = false;
  /// Of qgZ and hpZ: hosts of so many neighbouring ranks. Gradients are then added up within a host
  /// first, in float32, and go on between hosts in the codec again: of n elements (G - 1) H parts
  /// stay within a host of G ranks, and H - 1 parts leave a rank of H hosts, where 1 sends N - G of
  /// them.
  int ranks_of_host = 1;

  bool any() const { return weights || gradients || secondary; }
};

}  // namespace hero::dist

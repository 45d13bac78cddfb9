#pragma once
// Quantize: which of FSDP's gathers and reductions send quantised values.
#include <optional>

#include <hero/core/functions/codec.h>

namespace hero::dist {

using core::Codec;

/// The three parts of ZeRO++ (Wang et al., arXiv 2306.10209), which you can combine freely. A
/// unit's flat parameter of n elements is cut into N parts of n / N elements for N ranks. With
/// offload the host encodes the weights, so that only the encoded bytes are copied to the device,
/// and the copy of `secondary` stays in device memory.
struct Quantize {
  /// qwZ: shards are gathered in the format of this codec, in forward and backward; every rank
  /// computes with the decoded values, those of its own shard included, and steps its exact shards.
  /// Each gathering sends (N - 1) encoded_bytes(codec, n / N) bytes.
  std::optional<core::Codec> weights = {};
  /// qgZ: each rank sends each other rank its part of the gradients in the format of this codec,
  /// and adds up the parts that it receives in float32, in the order of ranks: values are rounded
  /// once, while a ring would round N - 1 times. Each reduction sends (N - 1) encoded_bytes(codec,
  /// n / N) bytes. In a hybrid, N is the number of shards, and the replicas add up
  /// the sums of their groups in float32.
  std::optional<core::Codec> gradients = {};
  /// hpZ: each of the G ranks of a host keeps 1 / G of the parameters that forward gathered, so
  /// that backward gathers only within the host: it sends (G - 1) n / G elements, in the
  /// parameters' dtype, on links of this host only, and each rank needs memory for n / G elements
  /// until the next step.
  bool secondary = false;
  /// For qgZ and hpZ: the number G of consecutive ranks on each host. Gradients are then added up
  /// within a host first, in float32, and then between the H hosts in the format of the codec: of
  /// the N parts, a rank sends (G - 1) H within its host and H - 1 to other hosts, instead of N -
  /// G.
  int ranks_of_host = 1;

  /// True if any of the three parts is on.
  bool any() const { return weights || gradients || secondary; }
};

}  // namespace hero::dist

#pragma once
// A reduce-scatter whose messages are encoded by a codec, for the data-parallel strategies.
#include <hero/core/functions/codec.h>
#include <hero/dist/comm_hook.h>

namespace hero::dist {

/// The groups over which parts are reduced: all ranks at once or, with hosts, first the ranks of a
/// host and then the ranks with the same index on each host.
struct QuantizedRoute {
  Communicator inner;       ///< all ranks, or the ranks of this host
  Communicator outer = {};  ///< the ranks with this rank's index on each host; undefined: no hosts
  int hosts() const { return outer.defined() ? outer.size() : 1; }
};

/// Makes the groups for hosts of `ranks_of_host` ranks each; 1: no hosts. A collective if there are
/// hosts.
QuantizedRoute quantized_route(const Communicator& group, int ranks_of_host);

/// Begins to set own, [n], to part rank() of the sum of all ranks' `parts`, [ranks * n], divided by
/// `divide_by`; elements [r n, (r + 1) n) of `parts` are for rank r. They are float32 or of half
/// precision; sums are float32. It is complete when the Future is.
Future quantized_reduce_scatter(const QuantizedRoute& route, core::Codec codec, const Array& own,
                                const Array& parts, double divide_by);

}  // namespace hero::dist

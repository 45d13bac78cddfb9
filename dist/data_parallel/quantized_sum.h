#pragma once
// QuantizedSum: the sum over ranks of each rank's part of an array, in bytes of a codec; for the
// data-parallel strategies.
#include <hero/core/functions/codec.h>
#include <hero/dist/comm_hook.h>

namespace hero::dist {

/// The ranks between which parts go: all at once or, with hosts, first those of a host and then
/// those at the same place of each host.
struct QuantizedRoute {
  Communicator inner;       ///< all ranks, or a host's
  Communicator outer = {};  ///< undefined: there are no hosts
  int hosts() const { return outer.defined() ? outer.size() : 1; }
};

/// Routes of a group whose hosts have so many ranks; 1: no hosts. A collective where there are
/// some.
QuantizedRoute quantized_route(const Communicator& group, int ranks_of_host);

/// own, [n], becomes part rank() of the sum of all ranks' `parts`, [ranks * n], divided by
/// `divide_by`: row r of them is for rank r. Halves or float32; sums in float32. Begins, and is
/// done when the Future is.
Future quantized_reduce_scatter(const QuantizedRoute& route, core::Codec codec, const Array& own,
                                const Array& parts, double divide_by);

}  // namespace hero::dist

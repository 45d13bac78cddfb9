#pragma once
// Small cpu arrays on simulated ranks: flags and counts by which programs agree on something.
#include <cstdint>

#include <hero/core/array.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// The largest cpu array, in bytes, of a call on simulated ranks; larger arrays are data, not
/// agreement.
inline constexpr int64_t kMostSaidBytes = int64_t{1} << 20;

/// Writes the result of a collective of cpu arrays on rank `me` of `ranks` as if all ranks' inputs
/// were equal to its own: a sum is `ranks` times the input, bitwise as in the call's order, a mean
/// or maximum is the input, and gathered parts are copies of it. Throws an Error for more than
/// kMostSaidBytes, and if the result depends on unknown data of other ranks: parts of different
/// sizes, or a part of another rank's array.
void set_as_if_identical(const Call& call, const core::Array& input, const core::Array& output,
                         int me, int ranks);

/// Throws an Error for a message of a cpu array, since the values that a rank receives are seldom
/// those that it sends.
void check_message(const Call& call);

}  // namespace hero::dist

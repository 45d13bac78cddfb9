#pragma once
// Small cpu arrays on simulated ranks: flags and counts by which programs agree on something.
#include <cstdint>

#include <hero/core/array.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// The most bytes that a simulated rank may say in one call; more of them are values to compute
/// with.
inline constexpr int64_t kMostSaidBytes = int64_t{1} << 20;

/// Writes what a collective of cpu arrays gives rank `me` of `ranks` if all ranks' inputs are as
/// its own: a sum is `ranks` times that in the bits of the call's order, a mean or maximum that
/// itself, gathered parts are copies of it. An Error for more than kMostSaidBytes, and for what no
/// rank can know of the others: parts of different sizes, a part of another's array.
void set_as_if_identical(const Call& call, const core::Array& input, const core::Array& output,
                         int me, int ranks);

/// An Error for a message of a cpu array: what one rank says to another is seldom what it hears.
void check_message(const Call& call);

}  // namespace hero::dist

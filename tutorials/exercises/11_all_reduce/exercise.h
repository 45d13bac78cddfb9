#pragma once
// Exercise 11: what an answer is given, and the functions that it defines.
#include "exercises/support/answer.h"

#include <hero/dist/dist.h>

namespace exercise {

/// \name Each replaces x, on every rank, by the sum of all ranks' x. x: float32 [numel], where
/// numel is a multiple of the number of ranks.
/// \{
void naive_all_reduce(const hero::Array& x, const hero::dist::Communicator& world);
void ring_all_reduce(const hero::Array& x, const hero::dist::Communicator& world);
void tree_all_reduce(const hero::Array& x, const hero::dist::Communicator& world);
/// \}

/// x += y, for arrays of one shape.
void add_to(const hero::Array& x, const hero::Array& y);
/// Part i of x, which is cut in `parts` equal parts: a window on its memory. i may be any whole
/// number: part -1 is the last one, and part `parts` the first.
hero::Array part(const hero::Array& x, int i, int parts);

}  // namespace exercise

#pragma once
#include <hero/core/array.h>

namespace hero::core {

/// True if two elements share a place in memory, as in results of expand() or unfold().
bool overlaps_itself(const Array& x);

/// Throws an Error of `op` if elements of `out` overlap: which of several values a place would keep
/// is undefined.
void check_no_overlap(const char* op, const Array& out);

}  // namespace hero::core

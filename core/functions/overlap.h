#pragma once
#include <hero/core/array.h>

namespace hero::core {

/// True where two elements lie in one place of memory, as in what expand() or unfold() give.
bool overlaps_itself(const Array& x);

/// Throws where `out` overlaps itself: which of several values is left in a place would be chance.
void check_no_overlap(const char* op, const Array& out);

}  // namespace hero::core

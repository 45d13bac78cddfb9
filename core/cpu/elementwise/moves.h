#pragma once
// Copies that keep every byte as it is.
#include <hero/core/array.h>

namespace hero::core::cpu {

/// dst = src, broadcast to dst's shape. Both have one dtype. Any strides; those of src may be
/// negative. The arrays do not overlap, unless they are the same view.
void move_elements(const Array& src, const Array& dst);

}  // namespace hero::core::cpu

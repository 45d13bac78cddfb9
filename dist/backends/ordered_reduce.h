#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include <hero/core/dtype.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// output[i] = inputs[0][i] (+) inputs[1][i] (+) ... in the fold's order, over `count` elements;
/// half precision is added up in float32 and rounded once if the result has half precision, as it
/// may for sums, products and means of float32.
/// `output` may be one of the inputs if both have the same dtype. NaN wins in min and max. Runs on
/// the calling thread: each rank has its own.
void ordered_reduce(const core::Fold& fold, std::span<const std::byte* const> inputs,
                    std::byte* output, int64_t count);

}  // namespace hero::dist

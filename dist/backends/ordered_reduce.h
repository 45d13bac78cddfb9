#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include <hero/core/dtype.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// output[i] = inputs[0][i] (+) inputs[1][i] (+) ... in the fold's order, over `count` elements;
/// halves in float32, rounded once where the result is a half. `output` may be one of the inputs
/// where result and inputs have one dtype. NaN wins in min and max. Runs on the calling thread:
/// each rank has its own.
void ordered_reduce(const core::Fold& fold, std::span<const std::byte* const> inputs,
                    std::byte* output, int64_t count);

}  // namespace hero::dist

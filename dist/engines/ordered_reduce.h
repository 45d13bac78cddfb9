#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include <hero/core/dtype.h>
#include <hero/dist/engines/call.h>

namespace hero::dist {

/// output[i] = inputs[0][i] (+) inputs[1][i] (+) ... in that order, over `count` elements of
/// `dtype`; halves in float32, rounded once. `output` may be one of the inputs. NaN wins in min and
/// max. Runs on the calling thread: each rank has its own.
void ordered_reduce(ReduceOp op, DType dtype, std::span<const std::byte* const> inputs,
                    std::byte* output, int64_t count);

}  // namespace hero::dist

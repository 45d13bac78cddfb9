#pragma once
#include <cstdint>

#include <hero/core/device.h>
#include <hero/core/dtype.h>

namespace hero {

/// The order in which the CPU adds up the products in matrix products of bfloat16
/// (docs/guides/numbers.md). In either case sums are in float32 and rounded once, and the bits are
/// the same for any number of threads and any tiling.
enum class HalfProducts : uint8_t {
  native,    ///< in the order of the instruction of the level of kernels, if any, else as portable
  portable,  ///< in the order of float32 products, which is the same on every machine
};

/// Sets the order for the whole process, from the next product on; products under way on other
/// threads may use either. It begins as native. Do not change it between forward and backward.
void set_half_products(HalfProducts order);
HalfProducts half_products();

/// True if the CPU multiplies bfloat16 by an instruction for it: half_products() is native, and the
/// level of kernels (docs/guides/numbers.md) has one. Then call::Matmul and call::Linear
/// of the CPU also store the float32 sums of such products as they are.
bool native_half_products();

namespace core {

/// Whether the kernels that compute with arrays of this dtype on this device, or that are planned
/// for it, multiply them by such an instruction: then operands of products and convolutions are not
/// converted, and sums are float32.
bool has_native_products(DType dtype, Device device);

}  // namespace core

}  // namespace hero

#pragma once
// std::cout << x.shape() << x.dtype() << x.device(): the same text as to_string().
#include <iosfwd>

#include <hero/core/device.h>
#include <hero/core/dims.h>
#include <hero/core/dtype.h>
#include <hero/core/scalar.h>

namespace hero {

std::ostream& operator<<(std::ostream& out, const Dims& dims);
std::ostream& operator<<(std::ostream& out, DType dtype);
std::ostream& operator<<(std::ostream& out, const Device& device);
std::ostream& operator<<(std::ostream& out, const Scalar& scalar);

}  // namespace hero

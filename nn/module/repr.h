#pragma once
// Options as Python prints them, for the layers' extra_repr().
#include <string>

#include <hero/core/dims.h>
#include <hero/core/scalar.h>

namespace hero::nn::repr {

/// "True" or "False"
std::string text(bool value);
/// The fewest digits that give the same value when read: "1e-05", "0.1", "1.0".
std::string text(double value);
/// An integer without a point: "2", and else as above.
std::string text(const Scalar& value);
/// "(3, 3)"; one number with a comma, "(3,)".
std::string tuple(const Dims& values);

}  // namespace hero::nn::repr

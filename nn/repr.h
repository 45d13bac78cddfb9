#pragma once
// Options as Python prints them: what extra_repr() of the layers is made of.
#include <string>

#include <hero/core/dims.h>

namespace hero::nn::repr {

/// "True" or "False"
std::string text(bool value);
/// The shortest digits that give the value back: "1e-05", "0.1", "1.0".
std::string text(double value);
/// "(3, 3)"; one number with a comma, "(3,)".
std::string tuple(const Dims& values);

}  // namespace hero::nn::repr

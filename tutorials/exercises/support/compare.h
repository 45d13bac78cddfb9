#pragma once
// Exercises without ranks: a path on a bowl or a tensor, beside the one that it should be and those
// that known mistakes give. Numbers are float64 and may differ by some roundings, since sums have
// no fixed order here.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exercises/support/arrays.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// The points after each step, two numbers each.
using Path = std::vector<std::vector<double>>;

/// The slope of f(x) = (2 x0^2 + 0.2 x1^2) / 2 + 0.3 x0 x1: float64 [2].
hero::Tensor slope(const hero::Tensor& x);

/// Calls step(x) `steps` times, from x = (2, -3), each time with the point that the last call
/// returned; throws Wrong where it is no float64 [2].
Path walk(int steps, const std::function<hero::Tensor(const hero::Tensor& x)>& step);

/// Throws Wrong, which says in which point two paths differ, and which of the mistakes makes the
/// path that was taken: each of them is a path and a sentence. Otherwise returns how the path ends.
std::string compare(const Path& got, const Path& right,
                    const std::vector<std::pair<Path, std::string>>& mistakes);

/// The same of a tensor that `name` calls.
void compare(const std::string& name, const hero::Tensor& got, const hero::Tensor& right,
             const std::vector<std::pair<hero::Tensor, std::string>>& mistakes);

/// Numbers of this shape, all different, some below zero: float64.
hero::Tensor numbers(const hero::Shape& shape, double seed, bool requires_grad = false);

}  // namespace exercise

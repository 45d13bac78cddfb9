#pragma once
// Chapter 6: many optimizers on the same problems.
#include <functional>
#include <string>
#include <vector>

#include "support/lessons/valley.h"
#include "support/options/program.h"

namespace tutorial {

/// A loss to make small from a start, and where that leads.
struct Problem {
  hero::Tensor (*loss)(const hero::Tensor& x);
  std::vector<double> start, goal;
  double near;  ///< largest distance, coordinate by coordinate, that counts as arrived
  hero::DType dtype;

  hero::Tensor parameter() const;
};

/// The valley of chapters 3 to 5, in float32.
Problem valley(double start);
/// (1 - x)^2 + 100 (y - x^2)^2: a curved canyon with its minimum at (1, 1), in float64. Rosenbrock,
/// "An automatic method for finding the greatest or least value of a function", 1960.
Problem rosenbrock();

/// What an optimizer does before the gradient is taken, and after.
struct Stepper {
  std::function<void()> before, after;
};

struct Method {
  std::string name;
  double lr, lr_rosenbrock;
  std::function<Stepper(const Problem& problem, const hero::Tensor& x, double lr)> library;
  std::function<Stepper(const hero::Tensor& x, double lr)> own = {};  ///< empty: shown before
};

/// Runs a method in the valley and prints it, and how well its own rule agrees with the library.
void show_method(const Method& method, double start, const Options& options);

/// One line a method: the valley from both sides, and Rosenbrock's canyon.
void compare_methods(const std::vector<Method>& methods, const Options& options);

}  // namespace tutorial

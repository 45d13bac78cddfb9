#pragma once
// The function of chapters 3 to 6: a curve with one minimum that is right and one that is not.
#include "support/lessons/path.h"

#include <hero/autograd/autograd.h>

namespace tutorial {

// [snippet: function]
/// f(x) = sin(x) + x^2/10, elementwise.
inline hero::Tensor f(const hero::Tensor& x) { return sin(x) + square(x) / 10; }
/// Its derivative as one finds it on paper.
inline hero::Tensor slope_by_hand(const hero::Tensor& x) { return cos(x) + x / 5; }
// [end]

constexpr float kTarget = -1.30644f;  ///< where f is smallest
constexpr float kTolerance = 1e-6f;   ///< near enough

/// float32 [1] on device() that requires grad.
hero::Tensor parameter(double start);
/// The number in a tensor of one float32.
float value(const hero::Tensor& x);
float distance(const hero::Tensor& x);

enum class Show { no, yes };

/// What chapters 4 and 5 print at every hundredth step, with the derivative by hand if wanted.
void print_step(int step, const hero::Tensor& x, const hero::Tensor& y, Show by_hand);
/// And at the end.
void print_results(const Path& path, const hero::Tensor& x, int steps);

/// One step of momentum and one of Nesterov's method from the same place with the same velocity, in
/// a valley of two parameters: what each adds to it, and where it ends. Into
/// folder/05_nesterov_step.
void draw_lookahead(const std::string& folder);

/// draw_path for f.
void draw_valley(const std::string& title, const Path& path, double lr, const std::string& folder,
                 const std::string& name);

}  // namespace tutorial

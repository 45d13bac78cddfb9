// Grades answers to exercise 6.
#include "exercises/06_layer_norm/exercise.h"
#include "exercises/support/compare.h"

using exercise::compare, exercise::numbers;
using hero::Tensor;

namespace {

constexpr double kEps = 0.1;

struct Case {
  Tensor x = numbers({5, 4}, 1, true), weight = numbers({4}, 2, true), bias = numbers({4}, 3, true);
  Tensor y = layer_norm(x, {4}, weight, bias, kEps);
};

// What `body` returns. Where its shapes do not go together, says which means do.
template <class Body>
auto with_shapes(const Body& body) {
  try {
    return body();
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    exercise::require(text.find("do not broadcast") == std::string::npos,
                      "It throws an error: ", text,
                      ". The mean of each row is a column [5, 1] by mean(x, {1}, true); without "
                      "true it has the shape [5].");
    throw;
  }
}

std::string forward() {
  const Case c;
  const Tensor x = c.x.detach(), w = c.weight.detach(), b = c.bias.detach();
  const auto norm = [&](const Tensor& mean_of, const Tensor& root) {
    return (x - mean_of) / root * w + b;
  };
  const Tensor m = mean(x, {1}, true), centred = x - m, variance = mean(square(centred), {1}, true);
  const Tensor columns = mean(x, {0}, true);
  compare(
      "y", with_shapes([&] { return exercise::layer_norm_forward(x, w, b, kEps); }), c.y.detach(),
      {{norm(m, sqrt(variance * (4.0 / 3.0) + kEps)),
        "The variance was divided by D - 1, and should be divided by D."},
       {norm(m, sqrt(variance) + kEps), "eps was added after the root, and should be under it."},
       {norm(m, variance + kEps), "The root is missing: divide by sqrt(variance + eps)."},
       {norm(m, sqrt(variance)), "eps is not used."},
       {centred / sqrt(variance + kEps), "The weight and the bias are not used."},
       {centred / sqrt(variance + kEps) * w, "The bias is not used."},
       {norm(m, sqrt(4.0 * variance + kEps)),
        "The squares of a row are added up, and their mean should be taken."},
       {norm(m, sqrt(variance * (4.0 / 5.0) + kEps)),
        "The squares of a row were divided by the number of rows, B, and should be by D."},
       {((x - m) / sqrt(variance + kEps) + b) * w,
        "The bias was multiplied by the weight: it is added last."},
       {norm(zeros_like(m), sqrt(variance + kEps)), "The mean was not subtracted."},
       {norm(m, sqrt(mean(square(x), {1}, true) + kEps)),
        "The squares were taken before the mean was subtracted: the variance is the mean of (x - "
        "mean)^2."},
       {norm(columns, sqrt(mean(square(x - columns), {0}, true) + kEps)),
        "Columns were normalised, and rows should be: take the mean over dimension 1."}});
  return "y is that of the library's layer_norm, up to roundings.";
}

std::string backward() {
  const Case c;
  const Tensor g = numbers({5, 4}, 4);
  const std::vector<Tensor> right =
      grad(std::vector<Tensor>{(c.y * g).sum()}, std::vector<Tensor>{c.x, c.weight, c.bias});
  const Tensor x = c.x.detach(), w = c.weight.detach(), m = mean(x, {1}, true);
  const Tensor root = sqrt(mean(square(x - m), {1}, true) + kEps), n = (x - m) / root, h = g * w;
  const Tensor of_h = mean(h, {1}, true), of_hn = n * mean(h * n, {1}, true);
  // the gradient of x with another root
  const auto by_root = [&](const Tensor& other) {
    const Tensor wrong_n = (x - m) / other;
    return (h - of_h - wrong_n * mean(h * wrong_n, {1}, true)) / other;
  };
  const Tensor variance = mean(square(x - m), {1}, true);
  const exercise::Gradients got =
      with_shapes([&] { return exercise::layer_norm_backward(g, x, w, kEps); });
  compare(
      "The gradient of x", got.x, right[0],
      {{h / root,
        "The mean and the variance of the row are taken for constants: each x changes both."},
       {(h - of_h) / root, "The share of the variance is missing: - n * mean of (h * n)."},
       {(h - of_hn) / root, "The share of the mean is missing: - mean of h."},
       {h - of_h - of_hn, "It is not divided by the root."},
       {(h - of_h - of_hn) / square(root), "It is divided by the root twice."},
       {(h - of_h - of_hn) * root, "It is multiplied by the root, and should be divided."},
       {(h - of_h + of_hn) / root, "The share of the variance is added, and should be subtracted."},
       {(h - of_h - mean(h * n, {1}, true)) / root, "The mean of (h * n) is not multiplied by n."},
       {(h - of_h - n * mean(g * n, {1}, true)) / root,
        "The mean of (g * n) stands where that of (h * n) should."},
       {(h - of_h - (x - m) * mean(h * (x - m), {1}, true)) / root,
        "x - mean stands where n should, which is divided by the root."},
       {(h - of_h - n * w * mean(h * n * w, {1}, true)) / root, "n has no weight in it: h has."},
       {(h - sum(h, {1}, true) - n * sum(h * n, {1}, true)) / root,
        "Sums over the row stand where its means should."},
       {(h - mean(h, {0}, true) - n * mean(h * n, {0}, true)) / root,
        "The means are those of the columns: take them over dimension 1, with the third "
        "argument true."},
       {(h - mean(h) - n * mean(h * n)) / root,
        "The means are those of the whole matrix, and each row has its own: mean(h, {1}, "
        "true)."},
       {by_root(sqrt(variance)), "eps is not under the root here, as it is in forward."},
       {by_root(sqrt(variance) + kEps),
        "eps was added after the root here, and is under it in forward."},
       {by_root(sqrt(variance * (4.0 / 3.0) + kEps)),
        "The variance was divided by D - 1 here, and by D in forward."},
       {(g - mean(g, {1}, true) - n * mean(g * n, {1}, true)) / root,
        "The weight is not in it: the gradient of n is g * weight."}});
  exercise::require(
      got.weight.defined() && got.weight.shape() == w.shape(),
      "The gradient of the weight should have the shape of the weight, [4]: sum over the rows.");
  compare(
      "The gradient of the weight", got.weight, right[1],
      {{mean(g * n, {0}),
        "That is a mean over the rows, and should be the sum: the weight is used in every row."},
       {sum(g * x, {0}), "That is the sum of g * x: the weight is multiplied by n."},
       {sum(g, {0}), "That is the gradient of the bias."},
       {sum(g * (x - m), {0}), "That is the sum of g * (x - mean): the weight is multiplied by n."},
       {sum(h * n, {0}), "The weight itself is in it, and y = n * weight gives it n alone."}});
  exercise::require(
      got.bias.defined() && got.bias.shape() == w.shape(),
      "The gradient of the bias should have the shape of the bias, [4]: sum over the rows.");
  compare("The gradient of the bias", got.bias, right[2],
          {{mean(g, {0}),
            "That is a mean over the rows, and should be the sum: the bias is used in every row."},
           {sum(h, {0}), "The weight is in it: y = n * weight + bias gives the bias g alone."}});
  return "so are the gradients of x, of the weight and of the bias.";
}

}  // namespace

int main() {
  return exercise::grade("Exercise 6. Layer norm and its gradient",
                         {{"forward", forward}, {"backward", backward}});
}

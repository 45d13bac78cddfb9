// Grades answers to exercise 4.
#include "exercises/04_backward/exercise.h"
#include "exercises/support/compare.h"

using exercise::compare, exercise::numbers, exercise::Two;
using hero::Tensor;

namespace {

// The library's gradients of the inputs of `y`, where g is that of y.
std::vector<Tensor> right(const Tensor& y, const Tensor& g, const std::vector<Tensor>& inputs) {
  return grad(std::vector<Tensor>{(y * g).sum()}, inputs);
}

std::string multiply() {
  const Tensor a = numbers({2, 3}, 1, true), b = numbers({2, 3}, 2, true), g = numbers({2, 3}, 3);
  const std::vector<Tensor> wanted = right(a * b, g, {a, b});
  const Tensor x = a.detach(), z = b.detach();
  const Two got = exercise::multiply_backward(g, x, z);
  const char* other =
      "Each factor was given itself, and a product gives each factor the other one.";
  compare("In y = a * b, the gradient of a", got.a, wanted[0],
          {{g * x, other}, {z, "g is not in it."}, {g, "That is g itself."}});
  compare("In y = a * b, the gradient of b", got.b, wanted[1],
          {{g * z, other}, {x, "g is not in it."}, {g, "That is g itself."}});
  return "y = a * b.";
}

std::string add_row() {
  const Tensor a = numbers({4, 3}, 1, true), b = numbers({3}, 2, true), g = numbers({4, 3}, 3);
  const std::vector<Tensor> wanted = right(a + b, g, {a, b});
  const Two got = exercise::add_row_backward(g);
  compare("In y = a + b, the gradient of a", got.a, wanted[0], {});
  const hero::Shape shape = got.b.defined() ? got.b.shape() : hero::Shape{3};
  exercise::require(
      shape == hero::Shape{3}, "In y = a + b, the gradient of b has the shape ", shape,
      " and should have that of b, [3]. b is used in every row: its gradient is the sum of the "
      "rows.",
      shape.empty()             ? " sum(g) adds up everything, and sum(g, {0}) the rows."
      : shape == hero::Shape{4} ? " Those are the sums within each row: the rows are dimension 0."
                                : "");
  compare(
      "In y = a + b, the gradient of b", got.b, wanted[1],
      {{mean(g, {0}),
        "That is the mean of the rows of g, and should be their sum: b is used in every row."}});
  return "y = a + b, where b is a row.";
}

std::string product() {
  const Tensor a = numbers({3, 3}, 1, true), b = numbers({3, 3}, 2, true), g = numbers({3, 3}, 3);
  const std::vector<Tensor> wanted = right(matmul(a, b), g, {a, b});
  const Tensor x = a.detach(), z = b.detach();
  const Two got = exercise::matmul_backward(g, x, z);
  const char* turned = "A matrix was not turned: use .t().";
  const char* order = "The factors are in the wrong order.";
  const char* both =
      "The factors are in the wrong order, and the one that is not g was not turned.";
  compare("In y = matmul(a, b), the gradient of a", got.a, wanted[0],
          {{matmul(g, z), turned},
           {matmul(z.t(), g), order},
           {matmul(z, g), both},
           {wanted[1], "That is the gradient of b, and a comes first."},
           {g * z, "That is a product element by element."}});
  compare("In y = matmul(a, b), the gradient of b", got.b, wanted[1],
          {{matmul(x, g), turned},
           {matmul(g, x.t()), order},
           {matmul(g, x), both},
           {g * x, "That is a product element by element."}});
  const Tensor long_a = numbers({4, 2}, 1, true), long_b = numbers({2, 5}, 2, true),
               long_g = numbers({4, 5}, 3);
  const std::vector<Tensor> long_wanted = right(matmul(long_a, long_b), long_g, {long_a, long_b});
  const Two long_got = exercise::matmul_backward(long_g, long_a.detach(), long_b.detach());
  compare("In y = matmul(a, b), the gradient of a", long_got.a, long_wanted[0], {});
  compare("In y = matmul(a, b), the gradient of b", long_got.b, long_wanted[1], {});
  return "y = matmul(a, b).";
}

std::string rectifier() {
  std::vector<double> values = numbers({3, 4}, 1).to_vector<double>();
  values[5] = 0.0;
  const Tensor x(hero::Array::from(values, {3, 4}), true), g = numbers({3, 4}, 3);
  const Tensor z = x.detach();
  compare("In y = relu(x), the gradient of x", exercise::relu_backward(g, z),
          right(relu(x), g, {x})[0],
          {{g, "That is g everywhere: it passes only where x is positive."},
           {where(z >= 0, g, 0.0), "There x is 0, which is not positive: > and not >=."},
           {g * z, "That is g x: where x is positive the slope is 1."},
           {relu(g), "That is relu(g): the sign of x decides, and not that of g."},
           {where(z > 0, 1.0, zeros_like(z)), "g is not in it."},
           {where(z > 0, g * z, 0.0), "That is g x where x is positive: the slope there is 1."},
           {where(g > 0, z, 0.0), "g and x are exchanged: x decides, and g passes."},
           {where(g > 0, g, 0.0), "The sign of x decides, and not that of g."}});
  return "y = relu(x).";
}

std::string soft_maximum() {
  const Tensor x = numbers({3, 4}, 1, true), g = numbers({3, 4}, 3);
  const Tensor y = softmax(x.detach(), 1);
  const auto answer = [&] {
    try {
      return exercise::softmax_backward(g, y);
    } catch (const hero::Error& error) {
      const std::string text = error.what();
      exercise::require(text.find("[3, 4] and [3]") == std::string::npos, "Shapes do not fit (",
                        text,
                        "): sum(x, {1}) has the shape [M], which is taken for a row. "
                        "sum(x, {1}, true) is a column, [M, 1].");
      throw;
    }
  };
  compare(
      "In y = softmax(x, 1), the gradient of x", answer(), right(softmax(x, 1), g, {x})[0],
      {{y * (1 - y) * g,
        "That uses y_i (1 - y_i) alone: every x_j of a row changes all y_i of the row."},
       {y * g, "The sum over the row is missing."},
       {g - sum(g * y, {1}, true), "All of it has to be multiplied by y."},
       {y * g - sum(g * y, {1}, true), "The sum over the row has to be multiplied by y, too."},
       {y * (g - sum(g, {1}, true)), "The sum over the row is that of g y, and not that of g."},
       {y * (g - sum(g * y)), "The sum is over all rows, and each row has its own."},
       {y * (g - sum(g * y, {0}, true)), "The sum is over a column, and should be over a row."}});
  return "y = softmax(x, 1).";
}

}  // namespace

int main() {
  return exercise::grade("Exercise 4. Backward of five operations", {{"multiply", multiply},
                                                                     {"add a row", add_row},
                                                                     {"matmul", product},
                                                                     {"relu", rectifier},
                                                                     {"softmax", soft_maximum}});
}

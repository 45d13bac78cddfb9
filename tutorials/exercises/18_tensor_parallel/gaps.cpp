// 18. A linear layer by columns and by rows (chapter 13)
//
// A linear layer makes y = x w^T + b, where w is stored as [out, in]. It is cut over the ranks in
// two ways, and one behind the other they need a single message in forward, and one in backward.
//
//   by columns   Each rank makes some columns of y. It has those rows of w and those numbers of
//                b. All ranks have the same x.
//   by rows      Each rank has some columns of x, and those columns of w. It makes a matrix as
//                large as y, and y is the sum of these over the ranks. All ranks have the same b.
//
// There is no autograd here: you write backward with the formulas of chapter 6a. For the whole
// layer they are, where g is the gradient of y:
//   of w: g^T x        of b: the sum of the rows of g        of x: g w
//
// What you need of the library, for tensors:
//   part(x, 0, world), part(x, 1, world)   this rank's rows, or its columns, of a matrix; a vector
//                                          is cut along dimension 0
//   matmul(a, b), a.t()                    a product of matrices; rows and columns exchanged
//   sum(x, {0})                            the sum of the rows
//   world_.all_reduce(x.array());          x becomes the sum over the ranks, on all of them
#include "exercises/18_tensor_parallel/exercise.h"

using hero::Tensor;
using hero::dist::Communicator;

namespace exercise {

class ByColumns : public Layer {
 public:
  ByColumns(const Tensor& whole_weight, const Tensor& whole_bias, const Communicator& world)
      : world_(world) {
    // WRITE 1: weight and bias become what this rank keeps of them.
    to_write("1, the constructor of ByColumns.");
  }

  Tensor forward(const Tensor& x) override {
    x_ = x;
    // WRITE 2: this rank's columns of y.
    to_write("2, forward() of ByColumns.");
  }

  Tensor backward(const Tensor& gradient) override {
    // WRITE 3: weight_gradient and bias_gradient, and the gradient of x, which all ranks have used.
    to_write("3, backward() of ByColumns.");
  }

 private:
  const Communicator& world_;
  Tensor x_;  // of forward
};

class ByRows : public Layer {
 public:
  ByRows(const Tensor& whole_weight, const Tensor& whole_bias, const Communicator& world)
      : world_(world) {
    // WRITE 4: weight and bias become what this rank keeps of them.
    to_write("4, the constructor of ByRows.");
  }

  Tensor forward(const Tensor& x) override {
    x_ = x;
    // WRITE 5: y, the same on all ranks.
    to_write("5, forward() of ByRows.");
  }

  Tensor backward(const Tensor& gradient) override {
    // WRITE 6: weight_gradient and bias_gradient, and the gradient of this rank's columns of x.
    to_write("6, backward() of ByRows.");
  }

 private:
  const Communicator& world_;
  Tensor x_;  // of forward
};

std::unique_ptr<Layer> by_columns(const Tensor& weight, const Tensor& bias,
                                  const Communicator& world) {
  return std::make_unique<ByColumns>(weight, bias, world);
}
std::unique_ptr<Layer> by_rows(const Tensor& weight, const Tensor& bias,
                               const Communicator& world) {
  return std::make_unique<ByRows>(weight, bias, world);
}

}  // namespace exercise

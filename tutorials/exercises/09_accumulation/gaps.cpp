// 9. Gradient accumulation: a batch in parts (chapter 9)
//
// A batch whose activations are too many for the memory is taken in parts. Each part has a loss and
// a backward of its own, and backward adds to the gradients that are there already. The result
// should be the gradient of the mean loss of the whole batch.
//
// In floating point (a + b) + c is not a + (b + c), so it matters in which order parts are added.
// Backward adds one after the other. But the gradient of a bias is a sum over the rows, which the
// library makes as a tree of halves. The second half of the exercise adds parts in that order: of
// four parts (a + b) + (c + d), and of eight the sum of two such sums. It has to do so while the
// parts come one after the other, and without keeping all of them.
//
// What you need of the library, for tensors:
//   x.slice(0, first, last)     the rows first ... last - 1
//   loss(x, target)             the mean loss of these rows, a tensor with one number
//   value * 0.25                a tensor times a number
//   value.backward()            adds to the gradients
//   value.item()                the number, as a double
//   p.set_grad({})              p has no gradient any more
//   x + y, x.defined()          a sum; false for a Tensor() that holds nothing
#include <algorithm>

#include "exercises/09_accumulation/exercise.h"

using hero::Tensor;

namespace exercise {

double accumulate(const std::vector<Tensor>& parameters, const Loss& loss, const Tensor& x,
                  const Tensor& target, int64_t rows) {
  const int64_t all = x.size(0);
  double total = 0.0;  // the mean loss of all rows
  // WRITE 1: the parts begin at row 0, rows, 2 * rows, and so on; the last one may be shorter. A
  // part weighs as much as its share of all rows.
  to_write("1, accumulate().");
  return total;
}

class Tree : public TreeSum {
 public:
  // levels_[0] is one tensor that waits for another, levels_[1] a sum of two that waits for another
  // sum of two, levels_[2] a sum of four, and so on. Undefined is what is not there.
  void add(const Tensor& x) override {
    // WRITE 2: where the place of x is taken, x is added to what is there, which becomes free, and
    // their sum goes on to the next level. What came first stands on the left: there + x.
    to_write("2, Tree::add().");
  }

  Tensor sum() const override {
    // WRITE 3: what is left in the levels, the smallest sum first. A larger sum came before the
    // smaller ones, so it stands on the left.
    to_write("3, Tree::sum().");
  }

 private:
  std::vector<Tensor> levels_;
};

std::unique_ptr<TreeSum> tree_sum() { return std::make_unique<Tree>(); }

}  // namespace exercise

// says: The losses are weighted twice
#include <algorithm>

#include "exercises/09_accumulation/exercise.h"

using hero::Tensor;

namespace exercise {

double accumulate(const std::vector<Tensor>& parameters, const Loss& loss, const Tensor& x,
                  const Tensor& target, int64_t rows) {
  const int64_t all = x.size(0);
  double total = 0.0;  // the mean loss of all rows
  for (const Tensor& p : parameters) p.set_grad({});
  for (int64_t first = 0; first < all; first += rows) {
    const int64_t last = std::min(first + rows, all);
    const double share = static_cast<double>(last - first) / static_cast<double>(all);
    const Tensor value = loss(x.slice(0, first, last), target.slice(0, first, last)) * share;
    value.backward();
    total += value.item() * share;
  }
  return total;
}

class Tree : public TreeSum {
 public:
  // levels_[0] is one tensor that waits for another, levels_[1] a sum of two that waits for another
  // sum of two, levels_[2] a sum of four, and so on. Undefined is what is not there.
  void add(const Tensor& x) override {
    Tensor carried = x;
    size_t level = 0;
    for (; level < levels_.size() && levels_[level].defined(); ++level) {
      carried = levels_[level] + carried;
      levels_[level] = Tensor();
    }
    if (level == levels_.size()) levels_.emplace_back();
    levels_[level] = carried;
  }

  Tensor sum() const override {
    Tensor sum;
    for (const Tensor& level : levels_) {
      if (level.defined()) sum = sum.defined() ? level + sum : level;
    }
    return sum;
  }

 private:
  std::vector<Tensor> levels_;
};

std::unique_ptr<TreeSum> tree_sum() { return std::make_unique<Tree>(); }

}  // namespace exercise

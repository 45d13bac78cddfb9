#include <algorithm>
#include <vector>

#include <hero/optim/exact_sum.h>

namespace hero::optim {

void add_up(Owners& owners, std::span<ExactSum> sums) {
  std::vector<int64_t> all;
  for (ExactSum& sum : sums) {
    const std::span<int64_t> words = sum.words();
    all.insert(all.end(), words.begin(), words.end());
  }
  owners.add_up(all);
  auto next = all.begin();
  for (ExactSum& sum : sums) {
    const std::span<int64_t> words = sum.words();
    std::copy_n(next, words.size(), words.begin());
    next += static_cast<std::ptrdiff_t>(words.size());
  }
}

}  // namespace hero::optim

// What a mixture of experts costs beside its arithmetic: a step of one layer (forward, backward and
// its loss) against one feed-forward network that does as many multiplications, in turns.
//   bench_moe [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>

namespace {

using namespace hero;
using Clock = std::chrono::steady_clock;

struct Size {
  int64_t tokens, width, hidden, experts, top_k;
};

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Body>
double milliseconds(const Body& body) {
  const Clock::time_point start = Clock::now();
  body();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void compare(const Size& size, int rounds) {
  nn::MoE moe(size.width, size.hidden, size.experts, {.top_k = size.top_k});
  nn::GroupedExperts dense(size.width, size.hidden * size.top_k, 1);
  const Tensor x = randn({size.tokens, size.width}).requires_grad_();
  std::vector<double> sparse, whole;
  for (int i = -1; i < rounds; ++i) {
    const double a = milliseconds([&] {
      const Tensor y = moe(x);
      (sum(y) + moe.aux_loss()).backward();
    });
    const double b = milliseconds([&] { sum(dense(x, {size.tokens})).backward(); });
    moe.zero_grad();
    dense.zero_grad();
    if (i < 0) continue;
    sparse.push_back(a);
    whole.push_back(b);
  }
  const double one = median(sparse), other = median(whole);
  std::printf("%6ld %6ld %6ld %7ld %5ld %10.1f %10.1f %6.2f\n", static_cast<long>(size.tokens),
              static_cast<long>(size.width), static_cast<long>(size.hidden),
              static_cast<long>(size.experts), static_cast<long>(size.top_k), one, other,
              one / other);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  manual_seed(1);
  std::printf("tokens  width hidden experts top_k  mixture ms   dense ms  ratio\n");
  for (const Size& size : {Size{2048, 256, 512, 8, 2}, Size{2048, 256, 128, 64, 6},
                           Size{4096, 512, 1024, 8, 2}, Size{256, 512, 1024, 8, 2}}) {
    compare(size, rounds);
  }
  return 0;
}

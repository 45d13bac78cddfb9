// [snippet: program]
#include <cstdio>

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

using namespace hero;

int main() {
  manual_seed(0);
  const Tensor x = rand({256, 1}) * 2.0;  // y = 4 + 3x and some noise
  const Tensor y = x * 3.0 + 4.0 + randn({256, 1}) * 0.1;
  const Tensor w = zeros({1, 1}, {.requires_grad = true}), b = zeros({1}, {.requires_grad = true});
  optim::Adam adam({w, b}, {.lr = 0.1});
  for (int step = 0; step < 300; ++step) {
    adam.zero_grad();
    mse_loss(linear(x, w, b), y).backward();
    adam.step();
  }
  std::printf("y = %.2f x + %.2f\n", w.item(), b.item());
}
// [end]

// [snippet: program]
#include <cstdio>

#include <hero/autograd/autograd.h>
#include <hero/nn/linear.h>
#include <hero/optim/optim.h>

using namespace hero;

struct MLP : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 1, 32);
  nn::Linear& out = add<nn::Linear>("out", 32, 1);
  Tensor forward(const Tensor& x) override { return out(tanh(hidden(x))); }
};

int main() {
  manual_seed(0);
  const Tensor x = linspace(-3.0, 3.0, 256).unsqueeze(1), y = sin(x);
  MLP model;
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  for (int step = 0; step < 1000; ++step) {
    adamw.zero_grad();
    mse_loss(model(x), y).backward();
    adamw.step();
  }
  std::printf("sin is off by %.2f at most\n", amax(abs(model(x) - y)).item());
  model.save("sine.safetensors");  // opens in Python, with PyTorch's names
}
// [end]

#pragma once
// A model whose layers have as many elements as a test of bytes says.
#include <string>
#include <vector>

#include <hero/nn/nn.h>

namespace hero::test {

/// Layers of width * width elements, without biases.
struct Stack : nn::Module {
  explicit Stack(int64_t layers, int64_t width) {
    for (int64_t i = 0; i < layers; ++i) {
      layer.push_back(
          &add<nn::Linear>(std::to_string(i), width, width, nn::LinearOptions{.bias = false}));
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::Linear* each : layer) h = relu((*each)(h));
    return h;
  }
  std::vector<nn::Linear*> layer;
};

}  // namespace hero::test

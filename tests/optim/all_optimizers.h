#pragma once
// Every first-order optimizer with options that use all of its states.
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/core/thread_pool.h>
#include <hero/optim/optim.h>

namespace hero_test {

struct Maker {
  using Make = std::function<std::unique_ptr<hero::optim::Optimizer>(std::vector<hero::Tensor>)>;
  std::string name;
  Make make;
  Make make_default;  // with default options, as a program that loads a state would
};

/// NesterovLookahead with both halves of its step in one.
struct LookThenStep : hero::optim::NesterovLookahead {
  using NesterovLookahead::NesterovLookahead;
  void step() override {
    lookahead();
    NesterovLookahead::step();
  }
};

template <class O, class Options>
Maker maker(std::string name, Options options) {
  return {std::move(name),
          [options](std::vector<hero::Tensor> p) { return std::make_unique<O>(p, options); },
          [](std::vector<hero::Tensor> p) { return std::make_unique<O>(p); }};
}

inline std::vector<Maker> all_optimizers() {
  using namespace hero::optim;
  return {
      maker<SGD>("sgd", SGDOptions{.lr = 0.1}),
      maker<SGD>("momentum", SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2}),
      maker<SGD>("nesterov", SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
      maker<LookThenStep>("lookahead", NesterovLookaheadOptions{.lr = 0.1}),
      maker<Adagrad>("adagrad", AdagradOptions{.lr = 0.1, .weight_decay = 0.1}),
      maker<RMSprop>("rmsprop", RMSpropOptions{}),
      maker<RMSprop>("rmsprop centered", RMSpropOptions{.centered = true}),
      maker<RMSprop>("rmsprop momentum", RMSpropOptions{.momentum = 0.9}),
      maker<RMSprop>("rmsprop both", RMSpropOptions{.momentum = 0.9, .centered = true}),
      maker<Adadelta>("adadelta", AdadeltaOptions{}),
      maker<Adam>("adam", AdamOptions{.lr = 0.01, .weight_decay = 0.1}),
      maker<AdamW>("adamw", AdamWOptions{.lr = 0.01}),
      maker<AdamW>("amsgrad", AdamWOptions{.lr = 0.01, .amsgrad = true, .maximize = true}),
      maker<Adamax>("adamax", AdamaxOptions{}),
      maker<NAdam>("nadam", NAdamOptions{.decoupled_weight_decay = true}),
      maker<RAdam>("radam", RAdamOptions{.betas = {0.9, 0.7}}),
      maker<Rprop>("rprop", RpropOptions{.lr = 0.05}),
      maker<ASGD>("asgd", ASGDOptions{.lr = 0.1, .t0 = 1, .weight_decay = 0.1}),
      maker<LAMB>("lamb", LAMBOptions{.weight_decay = 0.1}),
      maker<Lion>("lion", LionOptions{.weight_decay = 0.1}),
  };
}

/// A float32 leaf of `n` numbers in (-1, 1) that look random.
inline hero::Tensor noise(int64_t n, int seed) {
  std::vector<float> values;
  uint32_t state = 12345u + 977u * static_cast<uint32_t>(seed);
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f);
  }
  return hero::Tensor(hero::Array::from(values, {n}), true);
}

/// Gives every parameter a gradient that depends on the step alone.
inline void give_gradients(const std::vector<hero::Tensor>& params, int step) {
  for (const hero::Tensor& param : params) {
    const hero::Tensor g = noise(param.numel(), 100 + step);
    param.set_grad(hero::Tensor(g.array().reshape(param.shape())));
  }
}

inline bool same_bits(const hero::Tensor& a, const hero::Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.numel() == 0 || std::memcmp(a.array().bytes(), b.array().bytes(),
                                        static_cast<size_t>(a.array().nbytes())) == 0);
}

}  // namespace hero_test

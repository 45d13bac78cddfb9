// The examples of the API reference about optimizers: each runs, and its comments are checked.
#include <support/catch.h>

#include <hero/autograd/autograd.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

TEST_CASE("example: SGD") {
  //! [SGD]
  const Tensor x = tensor({4.0, -3.0}, {.requires_grad = true});
  optim::SGD sgd({x}, {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 200; ++step) {
    sgd.zero_grad();
    square(x).sum().backward();
    sgd.step();
  }  // x is near the minimum, 0 0
  //! [SGD]
  CHECK(x.abs().max().item() < 1e-3);
}

TEST_CASE("example: AdamW") {
  //! [AdamW]
  const Tensor weight = randn({16, 16}, {.requires_grad = true});
  const Tensor bias = zeros({16}, {.requires_grad = true});
  optim::AdamW adamw({{.params = {weight}, .options = {.lr = 3e-4, .weight_decay = 0.1}},
                      {.params = {bias}, .options = {.lr = 3e-4, .weight_decay = 0.0}}});
  linear(randn({8, 16}), weight, bias).square().mean().backward();
  adamw.step();
  //! [AdamW]
  CHECK(adamw.groups() == 2);
}

TEST_CASE("example: add_param_group") {
  const Tensor head = zeros({2}, {.requires_grad = true}), body = zeros({2});
  optim::AdamW adamw({head}, {.lr = 1e-3});
  //! [add_param_group]
  body.requires_grad_();  // it was frozen, and trains from now on, at a lower rate
  adamw.add_param_group({{body}, {.lr = 1e-4}});
  //! [add_param_group]
  CHECK(adamw.groups() == 2);
  CHECK(adamw.lr(1) == 1e-4);
}

TEST_CASE("example: Schedule") {
  //! [Schedule]
  const Tensor w = zeros({1}, {.requires_grad = true});
  optim::SGD sgd({w}, {.lr = 1.0});
  optim::Schedule schedule(
      sgd, optim::SequentialLR{{optim::LinearLR{.start_factor = 0.1, .total_iters = 10},
                                optim::CosineAnnealingLR{.t_max = 90}},
                               {10}});
  for (int step = 0; step < 10; ++step) {
    sgd.step();
    schedule.step();  // the warm-up ends: the rate is 1 now, and falls from here
  }
  //! [Schedule]
  CHECK(sgd.lr() == 1.0);
}

TEST_CASE("example: clip_grad_norm") {
  //! [clip_grad_norm]
  const Tensor w = tensor({3.0, 4.0}, {.requires_grad = true});
  (0.5 * square(w)).sum().backward();                   // the gradient is w, its norm 5
  const Tensor norm = optim::clip_grad_norm({w}, 1.0);  // 5, the norm before
  const double now = optim::grad_norm({w}).item();      // 1
  //! [clip_grad_norm]
  CHECK(norm.item() == 5.0);
  CHECK(now == Approx(1.0).epsilon(1e-6));  // 1e-6 is added to the norm
}

TEST_CASE("example: GradScaler") {
  //! [GradScaler]
  const Tensor w = randn({8, 8}, {.requires_grad = true});
  optim::AdamW adamw({w}, {.lr = 1e-3});
  optim::GradScaler scaler;
  for (int step = 0; step < 3; ++step) {
    Tensor loss;
    {
      const Autocast autocast({.dtype = kFloat16});
      loss = matmul(ones({4, 8}), w).square().mean();
    }
    scaler.scale(loss).backward();
    scaler.step(adamw);  // left out where a gradient overflowed
    scaler.update();
    adamw.zero_grad();
  }
  //! [GradScaler]
  CHECK(scaler.get_scale() > 0);
}

TEST_CASE("example: Accumulator") {
  //! [Accumulator]
  const Tensor w = ones({2}, {.requires_grad = true});
  optim::Accumulator gradients({w});
  for (const double x : {1.0, 2.0, 3.0, 4.0}) {
    (w * x).sum().backward();
    gradients.add();  // in the order of a tree, as four ranks would add them up
  }
  gradients.mean();  // w.grad(): 2.5 2.5
  //! [Accumulator]
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2.5, 2.5});
}

}  // namespace

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/container.h>
#include <hero/nn/linear.h>
#include <hero/nn/summary.h>

using namespace hero;

TEST_CASE("a summary lists layers, output shapes, parameters and bytes") {
  nn::Sequential net{nn::Linear(784, 512), nn::Sequential{nn::Identity(), nn::Linear(512, 10)}};
  net[1].requires_grad_(false);
  net[1].eval();
  const std::string text = nn::summary(net, {64, 784});
  CHECK(text ==
        "layer            output     parameters      bytes\n"
        "-------------------------------------------------\n"
        "Sequential       [64, 10]\n"
        "  0: Linear      [64, 512]     401,920   1.53 MiB\n"
        "  1: Sequential  [64, 10]\n"
        "    0: Identity  [64, 512]\n"
        "    1: Linear    [64, 10]        5,130  20.04 KiB\n"
        "-------------------------------------------------\n"
        "parameters: 407,050, trainable: 401,920, frozen: 5,130\n"
        "bytes: 1.55 MiB parameters, 0 B buffers\n");
  CHECK(net.training());  // the modes are as before
  CHECK_FALSE(net[1].training());
}

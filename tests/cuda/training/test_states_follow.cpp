// An optimizer that has stepped goes on when its parameters move between the CPU and the GPU.
#include "cuda/gpu.h"
#include "optim/all_optimizers.h"

#include <hero/optim/optim.h>

using namespace hero;
using namespace hero_test;

namespace {

std::vector<Tensor> leaves(DType dtype) {
  std::vector<Tensor> list;
  for (const Shape& shape : {Shape{12, 10}, Shape{7}, Shape{0}}) {
    list.emplace_back(noise(shape.numel(), shape.size()).array().to(dtype).reshape(shape), true);
  }
  return list;
}

void train(const std::vector<Tensor>& params, optim::Optimizer& optimizer, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    for (const Tensor& param : params) {
      const Array grad = noise(param.numel(), 100 + step).array().reshape(param.shape());
      param.set_grad(Tensor(grad.to(param.dtype()).to(param.device())));
    }
    optimizer.step();
  }
}

void move(const std::vector<Tensor>& params, Device device) {
  for (const Tensor& param : params) param.set_data(param.array().to(device));
}

}  // namespace

TEST_CASE("states go to the GPU with their parameters and come back, with the bits of the CPU") {
  HERO_NEEDS_GPU();
  std::vector<Maker> all = all_optimizers();
  all.push_back(maker<optim::EMA>("ema", optim::EMAOptions{.decay = 0.5}));
  all.push_back(maker<optim::MasterWeights<optim::AdamW>>("masters", optim::AdamWOptions{}));
  for (const Maker& maker : all) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      INFO(maker.name << " " << name(dtype));
      const std::vector<Tensor> plain = leaves(dtype), moved = leaves(dtype);
      const auto alone = maker.make(plain), used = maker.make(moved);
      train(plain, *alone, 0, 6);
      train(moved, *used, 0, 2);
      move(moved, kGpu);
      train(moved, *used, 2, 4);
      for (const auto& entry : used->state_dict()) {
        const bool is_number = entry.array.ndim() == 0;
        CHECK(entry.array.device() == (is_number ? kCpu : kGpu));
      }
      move(moved, kCpu);
      train(moved, *used, 4, 6);
      for (size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], moved[i]));
    }
  }
}

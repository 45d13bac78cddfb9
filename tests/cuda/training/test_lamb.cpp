// LAMB on the GPU: the bits of the CPU, few launches, and no waiting for the host.
#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"

#include <hero/autograd/autograd.h>
#include <hero/cuda/graph.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero_test;
using hero::test::awkward;
using hero::test::noise;

namespace {

// The same parameters here and there, half of them in a group of its own.
struct Params {
  std::vector<Tensor> here, there;

  void add(const Array& param, const Array& gradient) {
    here.emplace_back(param.clone(), true);
    here.back().set_grad(Tensor(gradient));
    there.emplace_back(param.to(kGpu), true);
    there.back().set_grad(Tensor(on_gpu(gradient)));
  }
  static optim::LAMB lamb(const std::vector<Tensor>& params) {
    const auto middle = params.begin() + static_cast<int64_t>(params.size() / 2);
    return optim::LAMB({{{params.begin(), middle}, {.lr = 0.01, .weight_decay = 0.1}},
                        {{middle, params.end()}, {.lr = 0.1, .maximize = true}}});
  }
  void check_same() const {
    for (size_t i = 0; i < here.size(); ++i) {
      INFO("parameter " << i << ", " << to_string(here[i].dtype()) << " "
                        << to_string(here[i].shape()));
      CHECK(same_bits(there[i].array(), here[i].array()));
    }
  }
};

}  // namespace

TEST_CASE("LAMB on the GPU steps as on the CPU, bit for bit") {
  HERO_NEEDS_GPU();
  constexpr DType kFloats[] = {kFloat32, kBFloat16, kFloat64, kFloat16};
  Params params;
  for (int64_t i = 0; i < 100; ++i) {
    const DType dtype = kFloats[i < 60 ? 0 : i % 4];
    const int64_t n = i % 9 == 4 ? 0 : i == 33 ? 9001 : i * 11 % 61 + 1;
    const auto seed = static_cast<uint64_t>(i);
    const Array gradient = noise({n}, dtype, seed + 1000);
    params.add(i == 7 ? Array::zeros({n}, dtype) : noise({n}, dtype, seed),
               i == 9 ? Array::zeros({n}, dtype) : gradient);
  }
  params.add(noise({5, 7}), awkward(noise({5, 7}, kFloat32, 1)));
  optim::LAMB here = Params::lamb(params.here), there = Params::lamb(params.there);
  for (int step = 0; step < 3; ++step) {
    here.step();
    there.step();
    params.check_same();
  }
}

TEST_CASE("LAMB of 148 parameters is a few launches that need no host") {
  HERO_NEEDS_GPU();
  Params params;
  for (int64_t i = 0; i < 148; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const Array param = noise({i * 7 % 40 + 1}, kFloat32, seed);
    params.add(param, noise(param.shape(), kFloat32, seed + 1000));
  }
  optim::LAMB here = Params::lamb(params.here), there = Params::lamb(params.there);
  cuda::GraphedStep step(
      [&](const std::vector<Array>&) {
        there.step();
        return std::vector<Array>{};
      },
      {.recapture = true});
  for (int i = 0; i < 5; ++i) {
    here.step();
    step({});
  }
  CHECK(step.captured());
  // Directions in four launches, zeros, squares in two, roots, and steps in four; cusim also
  // poisons the blocks of directions, words and norms.
  CHECK(step.nodes() <= 12 + 148 + 2);
  params.check_same();
}

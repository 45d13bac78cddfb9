// What kernels are asked to do, counted.
#include <thread>
#include <vector>

#include <support/catch.h>
#include <support/kernel_cost.h>

#include <hero/core/device/backend.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/profile/call_costs.h>
#include <hero/core/profile/kernel_cost.h>

namespace {

using namespace hero;
using core::Array;
using core::KernelKind;
using hero_test::CostSum;

TEST_CASE("cost: a product is two flops a multiply-add, on every device") {
  for (const Device device : {kCpu, kMeta}) {
    CostSum sum;
    {
      const core::CostScope scope(&sum);
      core::matmul(Array::empty({4, 5, 6}, kFloat32, device),
                   Array::empty({4, 6, 7}, kFloat32, device));
    }
    CHECK(sum.calls == 1);
    CHECK(sum.flops_of(KernelKind::matmul) == 2 * 4 * 5 * 6 * 7);
    CHECK(sum.bytes_of(KernelKind::matmul) == 4 * 4 * (5 * 6 + 6 * 7 + 5 * 7));
  }
}

TEST_CASE("cost: an operand that is repeated is read once") {
  const Array x = Array::empty({3, 1}, kFloat32, kMeta).expand({3, 1000});
  CHECK(core::stored_bytes(x) == 3 * 4);
  CHECK(core::stored_bytes(Array::empty({3, 0}, kFloat32, kMeta)) == 0);
  CHECK(core::stored_bytes(Array()) == 0);
}

TEST_CASE("cost: a causal mask leaves the pairs of a query with the keys before it") {
  for (const int64_t first : {0, 3, 8}) {
    for (const int64_t keys : {1, 5, 8, 20}) {
      int64_t pairs = 0;
      for (int64_t t = 0; t < 6; ++t) pairs += std::min(keys, first + t + 1);
      CHECK(core::attention_pairs({.is_causal = true, .first_query = first}, 6, keys) == pairs);
      CHECK(core::attention_pairs({.first_query = first}, 6, keys) == 6 * keys);
    }
  }
}

TEST_CASE("cost: meters nest, and count their thread alone") {
  CostSum outer, inner;
  const Array x = Array::ones({8});
  {
    const core::CostScope first(&outer);
    core::reduce(core::ReduceKind::sum, x);
    {
      const core::CostScope second(&inner);
      core::reduce(core::ReduceKind::sum, x);
      core::reduce(core::ReduceKind::sum, x);
      std::thread([&] { core::reduce(core::ReduceKind::sum, x); }).join();
    }
    CHECK(core::current_cost_meter() == &outer);
  }
  CHECK(core::current_cost_meter() == nullptr);
  CHECK(outer.calls == 1);
  CHECK(inner.calls == 2);
  CHECK(outer.flops_of(KernelKind::reduce) == 8);
}

TEST_CASE("cost: what was computed under a meter has the bits of what was not") {
  const Array a = Array::full({33, 17}, 0.3), b = Array::full({17, 9}, 1.7);
  const std::vector<float> plain = core::matmul(a, b).to_vector<float>();
  CostSum sum;
  const core::CostScope scope(&sum);
  CHECK(core::matmul(a, b).to_vector<float>() == plain);
}

}  // namespace

// What a device is to the rest of the library: arrays that lie there.
#include "cuda/gpu.h"

#include <hero/core/array.h>
#include <hero/core/ledger.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("arrays on the GPU are charged to its account and cannot be read by the host") {
  HERO_NEEDS_GPU();
  Ledger ledger;
  const LedgerScope scope(ledger);
  {
    const Array x = Array::full({3, 5}, 2.5, kFloat32, kGpu);
    CHECK(ledger.live(DeviceType::cuda) == 60);
    CHECK(ledger.live(DeviceType::cpu) == 0);
    CHECK_THROWS_WITH(x.data<float>(),
                      ContainsSubstring("[3, 5] lies on cuda:0") && ContainsSubstring("to(kCpu)"));
  }
  CHECK(ledger.live(DeviceType::cuda) == 0);
}

TEST_CASE("a device that is not there is an error that says what there is") {
  CHECK_THROWS_WITH(Array::empty({2}, kFloat32, {DeviceType::cuda, 9}),
                    ContainsSubstring("device cuda:9 is not available: "));
}

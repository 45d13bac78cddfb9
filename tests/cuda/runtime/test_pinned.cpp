// Page-locked host memory behind ordinary cpu arrays.
#include "cuda/deferred.h"
#include "cuda/gpu.h"

#include <hero/core/array.h>
#include <hero/core/ledger.h>

using namespace hero;
using namespace hero_test;
using namespace hero::cuda;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a pinned array is a cpu array like all others") {
  HERO_NEEDS_GPU();
  Ledger ledger;
  const LedgerScope scope(ledger);
  {
    const Array x = Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
    CHECK_FALSE(is_pinned(x));
    const Array locked = pin_memory(x.t());
    CHECK(is_pinned(locked));
    CHECK(locked.shape() == Shape({3, 2}));
    CHECK(locked.to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
    CHECK(pin_memory(locked).storage().data() == locked.storage().data());
    CHECK(ledger.live(DeviceType::cpu) == 48);
    CHECK(pinned({0}).numel() == 0);
    // released and refilled it is ordinary memory
    const Array other = pinned({7});
    other.storage().release();
    other.storage().refill();
    CHECK_FALSE(is_pinned(other));
  }
  CHECK(ledger.live(DeviceType::cpu) == 0);
}

TEST_CASE("copies of pinned arrays are not waited for and arrive") {
  HERO_NEEDS_GPU();
  const Array source = pin_memory(Array::from<float>({1.5f, -2, 7}, {3}));
  const Array there = Array::empty({3}, kFloat32, kGpu);
  const Array back = pinned({3});
  copy_async(source, there);
  const Event event = copy_async(there, back);
  event.synchronize();
  CHECK(back.to_vector<float>() == std::vector<float>{1.5f, -2, 7});
}

TEST_CASE("copies that cannot be left alone are refused") {
  HERO_NEEDS_GPU();
  const Array there = Array::zeros({4}, kFloat32, kGpu);
  CHECK_THROWS_WITH(copy_async(Array::zeros({4}), there),
                    ContainsSubstring("from cpu to cuda:0") && ContainsSubstring("pin_memory()"));
  CHECK_THROWS_WITH(copy_async(there, there), ContainsSubstring("page-locked"));
  CHECK_THROWS_WITH(copy_async(pinned({5}), there), ContainsSubstring("of one shape and dtype"));
  CHECK_THROWS_WITH(pin_memory(there), ContainsSubstring("lies on cuda:0"));
}

#if defined(HERO_TEST_CUSIM)

TEST_CASE("a pinned block is not handed out again while a copy uses it") {
  const Deferred deferred;
  const Array there = Array::empty({300}, kFloat32, kGpu);
  synchronize();
  std::byte* at = nullptr;
  {
    const Array source = pinned({300});
    at = source.storage().data();
    for (int i = 0; i < 300; ++i) source.data<float>()[i] = 4;
    copy_async(source, there);
  }
  const Array other = pinned({300});
  CHECK(other.storage().data() != at);
  for (int i = 0; i < 300; ++i) other.data<float>()[i] = 5;
  synchronize();
  CHECK(*reinterpret_cast<const float*>(there.bytes()) == 4);
#if !defined(__SANITIZE_ADDRESS__)  // where nothing is cached
  CHECK(pinned({300}).storage().data() == at);
#endif
}

#endif

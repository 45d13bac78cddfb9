// Arrays of a GPU for other libraries and from them by DLPack; what is not about devices is in
// tests/core.
#include "cuda/gpu.h"
#include "support/arrays.h"

#include <hero/core/dlpack.h>

using namespace hero;
using namespace hero_test;
using namespace hero::test;

TEST_CASE("arrays of a GPU are shared by DLPack where they lie") {
  HERO_NEEDS_GPU();
  const Array x = noise({3, 4}).to(kGpu);
  const Array part = x.slice(1, 1).t();
  auto* const managed = core::to_dlpack(part);
  CHECK(managed->dl_tensor.device.device_type == dlpack::kDLCUDA);
  CHECK(managed->dl_tensor.device.device_id == 0);
  CHECK(managed->dl_tensor.data == part.bytes());
  {
    const Array back = core::from_dlpack(managed);
    CHECK(back.device() == kGpu);
    CHECK(back.bytes() == part.bytes());
    CHECK(back.strides() == part.strides());
    CHECK(same(back.to(kCpu), part.to(kCpu)));
    core::backend(kGpu).run(core::call::Fill{back, 2});
  }
  CHECK(x.to(kCpu).to_vector<double>()[1] == 2);
  auto* const beyond = core::to_dlpack_unversioned(x);
  beyond->dl_tensor.device.device_id = cuda::device_count();
  CHECK_THROWS_WITH(core::from_dlpack(beyond), Catch::Matchers::StartsWith("from_dlpack: "));
  beyond->deleter(beyond);  // it was refused, and so is still ours
}

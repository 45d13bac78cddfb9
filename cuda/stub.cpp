// The CUDA backend of a build that has none: no devices, and a line that says what to do.
#include <hero/core/accelerator.h>
#include <hero/core/error.h>
#include <hero/cuda/cuda.h>

namespace hero::cuda {

bool is_built() { return false; }
int device_count() { return 0; }
std::string reason() {
  return "this build has no CUDA backend; install the CUDA toolkit and configure with "
         "-DHERO_CUDA=ON, or use cpu or meta";
}
void synchronize(Device device) { core::accelerator("synchronize", device); }

namespace {

class Absent final : public core::Accelerator {
 public:
  int device_count() override { return 0; }
  std::string reason() override { return cuda::reason(); }
  core::Backend& backend(int) override { fail("cuda: ", reason()); }
  void* allocate(int64_t, int) override { fail("cuda: ", reason()); }
  void deallocate(void*, int64_t, int) noexcept override {}
};

}  // namespace
}  // namespace hero::cuda

extern "C" {
// The linker is told to look for this symbol, and with it takes the registration along.
extern const int hero_cuda_registered;
const int hero_cuda_registered = [] {
  static hero::cuda::Absent absent;
  hero::core::set_accelerator(&absent);
  return 1;
}();
}

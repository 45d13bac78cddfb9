#include <hero/core/cpu/cpu_backend.h>

namespace hero::core::cpu {

void CpuBackend::update(UpdateOp, const Array&, const Array&, std::span<const Array>,
                        std::span<const double>) {
  fail("pending");
}

}  // namespace hero::core::cpu

// The meta device: shapes without bytes. Every family has nothing to compute, but its arrays are
// fetched as those of other devices are, so that memory and transfers are theirs; what needs
// values fails.
#include <hero/core/device/backend.h>
#include <hero/core/device/fetching_backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/meta/planned_host.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

class MetaBackend final : public RunsAround<MetaBackend> {
 public:
  template <class Call>
  ResultOf<Call> around(const Call& call) {
    fetch_arrays(call);
    return ResultOf<Call>();
  }
  // On a GPU, what lies between the steps takes memory.
  void around(const call::FusedMap& call) {
    if (kernels_of(call.outs[0].device()) == DeviceType::cuda) {
      return Backend::run(call);  // NOLINT(bugprone-parent-virtual-call)
    }
    fetch_arrays(call);
  }
  void around(const call::FusedMapSum& call) {
    if (kernels_of(call.out.device()) == DeviceType::cuda) {
      return Backend::run(call);  // NOLINT(bugprone-parent-virtual-call)
    }
    fetch_arrays(call);
  }
  void around(const call::Copy& call) {
    fetch_arrays(call);
    const Array &src = call.src, &dst = call.dst;
    const bool is_staged = src.device() == kPlannedHost && dst.device() != kPlannedHost &&
                           dst.numel() > 0 && dst.nbytes() <= kStagedBytes;
    if (is_staged) Array::empty(dst.shape(), dst.dtype(), kPlannedHost);
  }
  PackedMatrix around(const call::PackMatrix& call) {
    fetch_arrays(call);
    const Array& b = call.b;
    // the CPU packs halves as float32 where it has no products of them
    const bool widens = is_half(b.dtype()) && kernels_of(b.device()) == DeviceType::cpu &&
                        !has_native_products(b.dtype(), b.device());
    return {b.size(0), b.size(1),
            Array::empty({b.numel()}, widens ? kFloat32 : b.dtype(), b.device())};
  }
  // Of what is planned for the CPU, as there; in other dtypes than those of native products columns
  // are planned.
  bool around(const call::HasConvolution& call) {
    return has_native_products(call.from.dtype(), call.from.device()) && cpu_backend().run(call);
  }
  bool around(const call::ConvolveBack& call) {
    fetch_arrays(call);
    return true;
  }
  Array around(const call::CheckedIndex& call) {
    fetch_arrays(call);
    return call.index.to(kInt64);
  }
  Array around(const call::Nonzero& call) {
    fail("nonzero: the result's shape depends on values, and meta array ", call.x.shape(),
         " has none; use a cpu array");
  }
};

}  // namespace

Backend& meta_backend() {
  static auto* const backend = new MetaBackend;  // leaked, as that of the cpu
  return *backend;
}

Backend& planned_host_backend() {
  static auto* const backend = new MetaBackend;
  return *backend;
}

namespace {

[[maybe_unused]] const bool kMetaBackendsAtFork = at_fork([] {
  meta_backend();
  planned_host_backend();
});  // see [note: forks]

}  // namespace

}  // namespace hero::core

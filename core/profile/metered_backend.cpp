#include <mutex>
#include <unordered_map>

#include <hero/core/device/planned_device.h>
#include <hero/core/profile/metered_backend.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

// Inside of a call nothing is charged: a family may be made of others.
class MeteredBackend final : public RunsAround<MeteredBackend> {
 public:
  MeteredBackend(Backend& inner, KernelPlace place) : inner_(inner), place_(place) {}

  template <class Call>
  ResultOf<Call> around(const Call& call) {
    charge(call.cost());
    const CostScope inside(nullptr);
    return inner_.run(call);
  }
  // A GPU takes the steps of a fused map one by one, and each is charged.
  void around(const call::FusedMap& call) {
    if (kernels_of(call.outs[0].device()) == DeviceType::cuda) {
      return Backend::run(call);  // NOLINT(bugprone-parent-virtual-call)
    }
    around<call::FusedMap>(call);
  }
  void around(const call::FusedMapSum& call) {
    if (kernels_of(call.out.device()) == DeviceType::cuda) {
      return Backend::run(call);  // NOLINT(bugprone-parent-virtual-call)
    }
    around<call::FusedMapSum>(call);
  }
  // But for native products columns are counted, and the products with them.
  bool around(const call::HasConvolution& call) {
    return is_half(call.from.dtype()) && inner_.run(call);
  }

 private:
  // Empty arrays start no kernel.
  void charge(KernelCost cost) const {
    if (cost.flops <= 0 && cost.bytes <= 0) return;
    if (cost.place == KernelPlace::device) cost.place = place_;
    cost_meter->charge(cost);
  }
  template <size_t N>
  void charge(const std::array<KernelCost, N>& costs) const {
    for (const KernelCost& cost : costs) charge(cost);
  }

  Backend& inner_;
  const KernelPlace place_;
};

constinit std::mutex metered_mutex;

std::unordered_map<Backend*, MeteredBackend>& metered_backends() {
  static auto* const all = new std::unordered_map<Backend*, MeteredBackend>;  // as backends, leaked
  return *all;
}
[[maybe_unused]] const bool kMeteredAtFork = at_fork(
    [] {
      metered_mutex.lock();
      metered_backends();
    },
    [] { metered_mutex.unlock(); }, [] { metered_mutex.unlock(); });  // see [note: forks]

}  // namespace

Backend& metered(Backend& inner, KernelPlace place) {
  const std::lock_guard lock(metered_mutex);
  return metered_backends().try_emplace(&inner, inner, place).first->second;
}

}  // namespace hero::core

#pragma once
// Every mode of a thread that functions of the library ask for, switched on, and what a thread sees
// of them.
#include <optional>
#include <string>

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/nn/norm.h>
#include <hero/autograd/sharding/replaced_values.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/ledger.h>
#include <hero/core/profile/observer.h>
#include <hero/core/random.h>
#include <hero/dist/backends/timeouts.h>
#include <hero/nn/hooks.h>
#include <hero/nn/module.h>

namespace hero_test {

/// What operations, modules and allocations of the calling thread do, found by asking them.
struct SeenModes {
  bool recorded, training, hooks, refuses_infinity, may_be_saved;
  hero::DType product, norm;
  hero::DeviceType planned;
  hero::MemoryTag tag;
  hero::Device device;
  hero::Ledger* ledger;
  hero::Generator::State generator;
  hero::BatchPart part;
  hero::dist::Phase phase;
  std::string error;  // of something that fails
  bool profiled;      // by the profiler that is open on the caller
  bool operator==(const SeenModes&) const = default;
};

inline const hero::Tensor& averaged_leaf() {
  static const hero::Tensor& leaf = *new hero::Tensor(hero::ones({2}).requires_grad_());
  return leaf;
}

inline SeenModes seen_modes() {
  using namespace hero;
  SeenModes seen = {};
  seen.generator = default_generator().state();
  seen.ledger = &current_ledger();
  seen.tag = current_tag();
  seen.part = batch_part();
  seen.planned = core::kernels_of(kMeta);
  seen.phase = dist::PhaseScope::current();
  seen.device = nn::DeviceScope::current();
  seen.hooks = !nn::WithoutHooks::active();
  seen.training = nn::Module().training();
  seen.profiled = core::observer != nullptr;
  const auto error_of = [](auto&& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  seen.error = error_of([] { fail("inner: broken"); });
  seen.may_be_saved =
      error_of([] { check_own_values("save", {averaged_leaf()}, ValueUse::save); }).empty();
  const Tensor x(Array::ones({2, 2}), true);
  const Tensor product = matmul(x, x);
  seen.recorded = product.requires_grad();
  seen.product = product.dtype();
  seen.norm = layer_norm(x, {2}).dtype();
  seen.refuses_infinity = !error_of([&] { (void)(x / zeros({2, 2})); }).empty();
  return seen;
}

/// Calls body on this thread with every mode other than at first, and a profiler open.
template <class Body>
void with_all_modes(Body&& body) {
  using namespace hero;
  static const std::string place = "encoder.layer";
  const NoGrad no_grad;
  const Autocast autocast({.dtype = kFloat16});
  const DetectAnomaly anomaly({.infinities = true});
  const detail::HalfNorms half_norms(true);
  const ReplacedValuesScope averages({averaged_leaf()},
                                     {.what = "is an average now", .can_save = true});
  const SavingCheckpoint saving;
  const nn::EvalScope eval;
  const nn::WithoutHooks without_hooks;
  const nn::DeviceScope on_meta(kMeta);
  const core::PlannedDevice planned(DeviceType::cuda);
  static Ledger& ledger = *new Ledger;  // arrays that are kept may outlive the test
  const LedgerScope charged(ledger);
  const MemoryScope tagged(MemoryTag::communication);
  const dist::PhaseScope phase(dist::Phase::checkpoint);
  const PlaceScope at(place);
  const detail::Named named("outer");
  const BatchPart part_before = std::exchange(batch_part(), BatchPart{1, 2});
  const Generator::State before = default_generator().state();
  manual_seed(1234);
  (void)default_generator().next();
  {
    const Profiler profiler;
    body();
  }
  default_generator().set_state(before);
  batch_part() = part_before;
}

}  // namespace hero_test

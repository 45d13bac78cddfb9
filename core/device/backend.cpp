#include <algorithm>
#include <vector>

#include <hero/core/accelerator.h>
#include <hero/core/cpu/kernels.h>
#include <hero/core/device/asking_backend.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/memory/fetcher.h>
#include <hero/core/meta/planned_host.h>
#include <hero/core/profile/metered_backend.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

bool is_taken_after(std::span<const ChainStep> steps, size_t i, int result) {
  return std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(),
                     [=](const ChainStep& step) {
                       const auto* const end = step.from.begin() + step.arity;
                       return std::find(step.from.begin(), end, result) != end;
                     });
}

void Backend::chain(std::span<const ChainStep> steps, std::span<const Operand> inputs,
                    DType compute, std::span<const Array> outs) {
  std::vector<Array> results(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<Operand> operands;
    const auto taken = std::span(steps[i].from).first(static_cast<size_t>(steps[i].arity));
    for (const int64_t from : taken) {
      operands.push_back(from < 0 ? inputs[static_cast<size_t>(~from)]
                                  : Operand(results[static_cast<size_t>(from)]));
    }
    const Array* const out = steps[i].out < 0 ? nullptr : &outs[static_cast<size_t>(steps[i].out)];
    // A later step takes what is not rounded yet.
    const bool is_taken = is_taken_after(steps, i, static_cast<int>(i));
    results[i] = is_taken ? Array::empty(outs[0].shape(), compute, outs[0].device()) : *out;
    map(steps[i].op, operands, compute, results[i]);
    if (is_taken && out != nullptr) copy(results[i], *out);
    for (const int64_t from : taken) {
      if (from >= 0 && !is_taken_after(steps, i, static_cast<int>(from)))
        results[static_cast<size_t>(from)] = Array();
    }
  }
}

void Backend::chain_sum(std::span<const ChainStep> steps, std::span<const Operand> inputs,
                        DType compute, const Shape& shape, const Array& out) {
  const int64_t rows = out.numel();
  if (rows == 0) return;
  const Array all = Array::empty(shape, compute, out.device());
  if (all.numel() > 0) chain(steps, inputs, compute, {&all, 1});
  reduce(ReduceKind::sum, all.reshape({rows, all.numel() / rows}), nullptr, out.reshape({rows, 1}));
}

void Backend::log_likelihood_in_place(const Array& g, const Array& x, const Array& classes,
                                      const Array& out, const Array& log_sum) {
  log_likelihood(x, classes, out, log_sum);
  log_likelihood_backward(g, x, classes, log_sum, x);
}

Backend& cpu_backend() {
  static Backend& chosen = cpu::kernels().backend;
  return chosen;
}

namespace {

Backend& plain_backend(Device device) {
  if (device.type == DeviceType::cpu) return cpu_backend();
  if (device == kPlannedHost) return planned_host_backend();
  if (device.type == DeviceType::meta) return meta_backend();
  return accelerator("backend", device).backend(device.index);
}

// see [note: forks]
[[maybe_unused]] const bool kCpuBackendAtFork = at_fork([] {
  try {
    cpu_backend();
  } catch (const std::exception&) {  // the first kernel will say it again, to somebody who listens
  }
});

}  // namespace

Backend& backend(Device device) {
  Backend* found = &plain_backend(device);
  if (has_fetchers() && device.type != DeviceType::meta) found = &asking(*found);
  if (!work_meter) return *found;
  return metered(*found, device == kPlannedHost ? WorkPlace::host : WorkPlace::device);
}

}  // namespace hero::core

// The meta device: shapes without bytes. Every family has nothing to compute, but its arrays are
// asked for as those of other devices are, so that memory and transfers are theirs; what needs
// values fails.
#include <hero/core/cpu/products/halves.h>
#include <hero/core/device/asking_backend.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/meta/planned_host.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

// [note: widened] What is planned for the CPU takes the memory of its products of halves, too:
// where the CPU has none of the dtype they go through float32 arrays, in pieces as in
// core/cpu/products/matmul.cpp.
bool is_widened(const Array& out) {
  return out.numel() > 0 && kernels_of(out.device()) == DeviceType::cpu &&
         cpu::are_widened(out.dtype());
}

Array wide_room(int64_t count, const Array& beside) {
  return Array::empty({count}, kFloat32, beside.device());
}

// The blocks of a product, with room for another one of the sums where it `ends` so.
void hold_blocks(const Array& a, const Array& b, bool ends, const Array& beside) {
  const cpu::WideBlocks cut(a, b);
  const Array sums = wide_room(cut.rows * cut.columns, beside);
  const Array left = wide_room(cut.rows * cut.steps, beside);
  const Array right = wide_room(cut.steps * cut.columns, beside);
  if (ends) wide_room(cut.rows * cut.columns, beside);
}

void hold_widened(const Array& a, const Array& b, const Array& out) {
  if (!is_widened(out)) return;
  const int64_t count = cpu::widened_at_once(a, b, out);
  if (count == 1) return hold_blocks(a.select(0, 0), b.select(0, 0), false, out);
  const auto part = [&](const Array& x) {
    return wide_room((x.strides()[0] != 0 ? count : 1) * x.size(1) * x.size(2), out);
  };
  const Array wide = wide_room(count * out.size(1) * out.size(2), out);
  const Array left = part(a), right = part(b);
}

void hold_widened_linear(const Array& x, const Array& w, const Array* bias, const Array& out,
                         const Array* z) {
  if (!is_widened(out)) return;
  const Array shift = bias != nullptr ? wide_room(bias->numel(), out) : Array();
  hold_blocks(x, w.t(), z != nullptr, out);
}

class MetaBackend final : public AskingBackend {
 public:
  MetaBackend() : AskingBackend(nullptr) {}

  void chain(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
             std::span<const Array> outs) override {
    if (kernels_of(outs[0].device()) == DeviceType::cuda) {
      // What lies between the steps takes memory there.
      Backend::chain(steps, inputs, compute, outs);  // NOLINT(bugprone-parent-virtual-call)
    } else {
      AskingBackend::chain(steps, inputs, compute, outs);
    }
  }
  void chain_sum(std::span<const ChainStep> steps, std::span<const Operand> inputs, DType compute,
                 const Shape& shape, const Array& out) override {
    if (kernels_of(out.device()) == DeviceType::cuda) {
      // NOLINTNEXTLINE(bugprone-parent-virtual-call)
      Backend::chain_sum(steps, inputs, compute, shape, out);
    } else {
      AskingBackend::chain_sum(steps, inputs, compute, shape, out);
    }
  }
  void copy(const Array& src, const Array& dst) override {
    AskingBackend::copy(src, dst);
    const bool is_staged = src.device() == kPlannedHost && dst.device() != kPlannedHost &&
                           dst.numel() > 0 && dst.nbytes() <= kStagedBytes;
    if (is_staged) Array::empty(dst.shape(), dst.dtype(), kPlannedHost);
  }
  void matmul(const Array& a, const Array& b, const Array& out) override {
    AskingBackend::matmul(a, b, out);
    hold_widened(a, b, out);
  }
  PackedMatrix pack_matrix(const Array& b) override {
    ask_for(b);
    const DType dtype = is_widened(b) ? kFloat32 : b.dtype();
    return {b.size(0), b.size(1), Array::empty({b.numel()}, dtype, b.device())};
  }
  void linear(Activation activation, const Array& x, const Array& w, const Array* bias,
              const Array& out, const Array* z) override {
    AskingBackend::linear(activation, x, w, bias, out, z);
    hold_widened_linear(x, w, bias, out, z);
  }
  void linear_backward(const LinearBack& back) override {
    AskingBackend::linear_backward(back);
    const auto product = [](const Array& a, const Array& b, const Array& out) {
      if (out.defined()) hold_widened(a.unsqueeze(0), b.unsqueeze(0), out.unsqueeze(0));
    };
    product(back.g, back.w, back.g_x);
    product(back.g.t(), back.x, back.g_w);
  }
  Array checked_index(const char*, const Array& index, int64_t) override {
    ask_for(index);
    return index.to(kInt64);
  }
  Array nonzero(const Array& x) override {
    fail("nonzero: the result's shape depends on values, and meta array ", x.shape(),
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

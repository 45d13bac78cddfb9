// The meta device: shapes without bytes. Every family has nothing to compute, but its arrays are
// fetched as those of other devices are, so that memory and transfers are theirs; what needs
// values fails.
#include <hero/core/device/backend.h>
#include <hero/core/device/fetching_backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/wide_products.h>
#include <hero/core/meta/planned_host.h>
#include <hero/core/threads/at_fork.h>

namespace hero::core {

namespace {

// [note: widened] What is planned for the CPU takes the memory of its products of halves, too:
// where the CPU has none of the dtype they go through float32 arrays, in pieces as in
// core/cpu/products/matmul.cpp.
bool is_widened(const Array& out) {
  return out.numel() > 0 && kernels_of(out.device()) == DeviceType::cpu && are_widened(out.dtype());
}

Array wide_room(int64_t count, const Array& beside) {
  return Array::empty({count}, kFloat32, beside.device());
}

// The blocks of a product, with room for another one of the sums where it `ends` so.
void hold_blocks(const Array& a, const Array& b, bool ends, const Array& beside) {
  const WideBlocks cut(a, b);
  const Array sums = wide_room(cut.rows * cut.columns, beside);
  const Array left = wide_room(cut.rows * cut.steps, beside);
  const Array right = wide_room(cut.steps * cut.columns, beside);
  if (ends) wide_room(cut.rows * cut.columns, beside);
}

void hold_widened(const Array& a, const Array& b, const Array& out) {
  if (!is_widened(out)) return;
  const int64_t count = widened_at_once(a, b, out);
  if (count == 1) return hold_blocks(a.select(0, 0), b.select(0, 0), false, out);
  const auto part = [&](const Array& x) {
    return wide_room((x.strides()[0] != 0 ? count : 1) * x.size(1) * x.size(2), out);
  };
  const Array wide = wide_room(count * out.size(1) * out.size(2), out);
  const Array left = part(a), right = part(b);
}

void hold_widened_linear(const call::Linear& call) {
  const Array &x = call.x, &w = call.w, &out = call.out;
  if (!is_widened(out)) return;
  const Array shift = call.bias != nullptr ? wide_room(call.bias->numel(), out) : Array();
  hold_blocks(x, w.t(), call.z != nullptr, out);
}

class MetaBackend final : public RunsAround<MetaBackend> {
 public:
  template <class Call>
  ResultOf<Call> around(const Call& call) {
    fetch_arrays(call);
    return ResultOf<Call>();
  }
  // On a GPU, what lies between the steps takes memory.
  void around(const call::Chain& call) {
    if (kernels_of(call.outs[0].device()) == DeviceType::cuda) {
      return Backend::run(call);  // NOLINT(bugprone-parent-virtual-call)
    }
    fetch_arrays(call);
  }
  void around(const call::ChainSum& call) {
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
  void around(const call::Matmul& call) {
    fetch_arrays(call);
    hold_widened(call.a, call.b, call.out);
  }
  PackedMatrix around(const call::PackMatrix& call) {
    fetch_arrays(call);
    const Array& b = call.b;
    const DType dtype = is_widened(b) ? kFloat32 : b.dtype();
    return {b.size(0), b.size(1), Array::empty({b.numel()}, dtype, b.device())};
  }
  void around(const call::Linear& call) {
    fetch_arrays(call);
    hold_widened_linear(call);
  }
  void around(const call::LinearBack& back) {
    fetch_arrays(back);
    const auto product = [](const Array& a, const Array& b, const Array& out) {
      if (out.defined()) hold_widened(a.unsqueeze(0), b.unsqueeze(0), out.unsqueeze(0));
    };
    product(back.g, back.w, back.g_x);
    product(back.g.t(), back.x, back.g_w);
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

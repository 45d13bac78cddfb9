// Reductions: chooses the elements of each result, and the type in which they are combined.
#include <hero/cuda/reduce/reduce.cuh>

namespace hero::cuda {

namespace {

using core::ReduceKind;

// Kept dimensions in x's order, which is that of the results; reduced ones by falling strides, so
// that neighbours in memory are read together.
Reduction reduction_of(const Array& x, const Array& out) {
  Shape kept, reduced;
  Dims kept_strides, reduced_strides;
  for (int i = 0; i < x.ndim(); ++i) {
    const int64_t size = x.shape()[i], stride = x.strides()[i];
    if (out.shape()[i] != 1 || size == 1) {
      kept.push_back(size);
      kept_strides.push_back(stride);
      continue;
    }
    int at = reduced.size();
    while (at > 0 && reduced_strides[at - 1] < stride) --at;
    reduced.insert(at, size);
    reduced_strides.insert(at, stride);
  }
  return {"reduce",
          x.bytes(),
          Layout(kept, kept_strides),
          Layout(reduced, reduced_strides),
          out.numel(),
          x.numel() / out.numel(),
          x.device()};
}

Scalar value_of_none(ReduceKind op, DType dtype) {
  if (op == ReduceKind::prod || op == ReduceKind::all) return 1;
  if (op != ReduceKind::max && op != ReduceKind::min) return 0;
  const bool is_max = op == ReduceKind::max;
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return is_max ? -infinity : infinity;
  }
  Scalar value;
  dispatch(dtype, [&]<class T>(TypeTag<T>) {
    using Limits = std::numeric_limits<Compute<T>>;
    if constexpr (std::is_integral_v<T>) value = is_max ? Limits::lowest() : Limits::max();
  });
  return value;
}

// The dtype that results are made in before they are converted to out's; int64 stands for sums of
// all integers.
DType result_dtype(ReduceKind op, const Array& x, const Array& out) {
  if (op == ReduceKind::any || op == ReduceKind::all) return kBool;
  if (is_floating(out.dtype())) return out.dtype();
  return op == ReduceKind::max || op == ReduceKind::min ? x.dtype() : kInt64;
}

}  // namespace

void CudaBackend::run(const call::Reduce& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  if (call.x.numel() == 0)
    return run(call::Fill{call.out, value_of_none(call.op, call.out.dtype())});
  const DType dtype = result_dtype(call.op, call.x, call.out);
  const Array results = call.out.is_contiguous() && call.out.dtype() == dtype
                            ? call.out
                            : Array::empty(call.out.shape(), dtype, call.out.device());
  if (call.op == ReduceKind::any || call.op == ReduceKind::all) {
    reduce_truth(call.op, call.x.dtype(), reduction_of(call.x, call.out), results);
  } else if (is_floating(dtype)) {
    // Halves are read as they are, integers and floats of another width are converted first.
    const DType wide = dtype == kFloat64 ? kFloat64 : kFloat32;
    const bool halves = wide == kFloat32 && is_half(call.x.dtype());
    const Array from = halves ? call.x : call.x.to(wide);
    const Array centers = call.center != nullptr ? call.center->to(wide).contiguous() : Array();
    const Reduction r = reduction_of(from, call.out);
    (halves ? reduce_halves : reduce_floats)(call.op, from.dtype(), r,
                                             call.center != nullptr ? &centers : nullptr, results);
  } else {
    const Array from = is_floating(call.x.dtype()) ? call.x.to(kInt64) : call.x;
    reduce_integers(call.op, from.dtype(), reduction_of(from, call.out), results);
  }
  if (results.bytes() != call.out.bytes()) run(call::Copy{results, call.out});
}

}  // namespace hero::cuda

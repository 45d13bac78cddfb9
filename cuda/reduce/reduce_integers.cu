#include <hero/cuda/reduce/reduce.cuh>

namespace hero::cuda {

namespace {

// bool is read as bytes 0 and 1.
template <class Body>
void dispatch_integers(DType dtype, Body&& body) {
  if (dtype == kInt64) return body(TypeTag<int64_t>{});
  if (dtype == kInt32) return body(TypeTag<int32_t>{});
  body(TypeTag<uint8_t>{});
}

}  // namespace

void reduce_integers(core::ReduceKind op, DType dtype, const Reduction& r, const Array& results) {
  dispatch_integers(dtype, [&]<class E>(TypeTag<E>) {
    switch (op) {
      case core::ReduceKind::sum:
        return reduce_as<SumOf, E, int64_t>(r, nullptr, results);
      case core::ReduceKind::prod:
        return reduce_as<Product, E, int64_t>(r, nullptr, results);
      case core::ReduceKind::sum_abs:
        return reduce_as<SumAbs, E, int64_t>(r, nullptr, results);
      case core::ReduceKind::max:
        return reduce_as<Largest, E, E>(r, nullptr, results);
      case core::ReduceKind::min:
        return reduce_as<Smallest, E, E>(r, nullptr, results);
      default:
        fail(r.op, ": integers are converted for this reduction");
    }
  });
}

void reduce_truth(core::ReduceKind op, DType dtype, const Reduction& r, const Array& results) {
  const auto run = [&]<class E>(TypeTag<E>) {
    if (op == core::ReduceKind::any) return reduce_as<Any, E, uint8_t>(r, nullptr, results);
    reduce_as<All, E, uint8_t>(r, nullptr, results);
  };
  switch (dtype) {
    case DType::float64:
      return run(TypeTag<double>{});
    case DType::float32:
      return run(TypeTag<float>{});
    case DType::bfloat16:
      return run(TypeTag<BFloat16>{});
    case DType::float16:
      return run(TypeTag<Float16>{});
    default:
      dispatch_integers(dtype, run);
  }
}

}  // namespace hero::cuda

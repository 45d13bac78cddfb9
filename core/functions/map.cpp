#include <hero/core/array/promotion.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/overlap.h>

namespace hero::core::detail {

namespace {

struct MapResult {
  Shape shape;
  DType dtype = kBool;  // after promotion of all operands
  Device device;
};

// `where` reads its condition as a number of the result's type, so it must not promote it.
bool promotes(const MapInfo& info, size_t position) {
  return position > 0 || info.op.index != kMapInfo<kernels::Where>.op.index;
}

MapResult plan(const MapInfo& info, std::span<const Operand> inputs) {
  MapResult plan;
  Promotion promotion;
  const Array* first = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Array* array = inputs[i].array;
    if (!array) continue;
    check(array->defined(), info.name, ": operand ", static_cast<int64_t>(i), " is undefined");
    if (!first) {
      plan.shape = array->shape();
      plan.device = array->device();
    } else {
      check_same_device(info.name, *first, *array);
      if (!(array->shape() == plan.shape)) {
        plan.shape = broadcast_shapes(info.name, plan.shape, array->shape());
      }
    }
    first = array;
    if (promotes(info, i)) promotion.add(array->dtype(), array->ndim());
  }
  check(first != nullptr, info.name, ": needs at least one array among its operands");
  for (const Operand& input : inputs) {
    if (!input.array) promotion.add(input.scalar);
  }
  plan.dtype = promotion.dtype();
  if (info.floats_only && !is_floating(plan.dtype)) plan.dtype = kFloat32;
  check(!info.integers_only || !is_floating(plan.dtype), info.name, ": ", plan.dtype,
        " has no bits to combine; the operands must be integers or bool");
  return plan;
}

// Halves are computed in float, bools as bytes.
DType compute_type(DType dtype) {
  if (is_half(dtype)) return kFloat32;
  return dtype == kBool ? kUInt8 : dtype;
}

// Halves are compared with what a number is as a half: 0.1 equals the half made of it.
Array compare_halves(const MapInfo& info, std::span<const Operand> inputs, const MapResult& p) {
  constexpr size_t kMost = 2;  // the arity of predicates
  Array converted[kMost];
  std::vector<Operand> rounded(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const Array* array = inputs[i].array) {
      if (array->dtype() == p.dtype) continue;
      converted[i] = array->to(p.dtype);
      rounded[i].array = &converted[i];
    } else if (p.dtype == kFloat16) {
      rounded[i].scalar = static_cast<float>(inputs[i].scalar.to<Float16>());
    } else {
      rounded[i].scalar = static_cast<float>(inputs[i].scalar.to<BFloat16>());
    }
  }
  Array out = Array::empty(p.shape, kBool, p.device);
  backend(p.device).run(call::Map{info.op, rounded, kFloat32, out});
  return out;
}

}  // namespace

Array map(const MapInfo& info, std::span<const Operand> inputs) {
  const MapResult p = plan(info, inputs);
  const DType compute = compute_type(p.dtype);
  if (info.predicate && compute != p.dtype && is_floating(compute)) [[unlikely]] {
    return compare_halves(info, inputs, p);
  }
  Array out = Array::empty(p.shape, info.predicate ? kBool : p.dtype, p.device);
  backend(p.device).run(call::Map{info.op, inputs, compute, out});
  return out;
}

void map_into(const MapInfo& info, std::span<const Operand> inputs, const Array& out) {
  const MapResult p = plan(info, inputs);
  check(out.defined() && out.device() == p.device, info.name, ": the output is not on ", p.device);
  check(broadcast_shapes(info.name, out.shape(), p.shape) == out.shape(), info.name, ": result of ",
        p.shape, " does not fit into ", out.shape());
  check(info.predicate || can_store(p.dtype, out.dtype()), info.name, ": result of ", p.dtype,
        " cannot be stored in ", out.dtype(), "; convert with to()");
  check_no_overlap(info.name, out);
  // An input that overlaps the output in another layout would be overwritten before it is read.
  Array copies[4];
  std::vector<Operand> safe(inputs.begin(), inputs.end());
  for (size_t i = 0; i < safe.size(); ++i) {
    const Array* array = safe[i].array;
    if (!array || !(array->storage_ref() == out.storage_ref())) continue;
    const bool same_view = array->offset() == out.offset() && array->shape() == out.shape() &&
                           array->strides() == out.strides();
    if (same_view) continue;
    copies[i] = array->clone();
    safe[i].array = &copies[i];
  }
  backend(p.device).run(call::Map{info.op, safe, compute_type(p.dtype), out});
  out.storage().bump_version();
}

}  // namespace hero::core::detail

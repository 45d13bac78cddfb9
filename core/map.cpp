#include <hero/core/map.h>

namespace hero::core::detail {

namespace {

struct Plan {
  Shape shape;
  DType dtype = kBool;  // after promotion of all operands
  Device device;
};

// `where` reads its condition as a number of the result's type, so it must not promote it.
bool promotes(const MapInfo& info, size_t position) {
  return position > 0 || info.op.index != kMapInfo<kernels::Where>.op.index;
}

Plan plan(const MapInfo& info, std::span<const Operand> inputs) {
  Plan plan;
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
    if (promotes(info, i)) plan.dtype = promote(plan.dtype, array->dtype());
  }
  check(first != nullptr, info.name, ": needs at least one array among its operands");
  for (const Operand& input : inputs) {
    if (!input.array) plan.dtype = promote(plan.dtype, input.scalar);
  }
  return plan;
}

// Halves are computed in float, bools as bytes.
DType compute_type(DType dtype) {
  if (dtype == kFloat16 || dtype == kBFloat16) return kFloat32;
  return dtype == kBool ? kUInt8 : dtype;
}

}  // namespace

Array map(const MapInfo& info, std::span<const Operand> inputs) {
  Plan p = plan(info, inputs);
  if (info.floats_only && !is_floating(p.dtype)) p.dtype = kFloat32;
  const DType compute = compute_type(p.dtype);
  Array out = Array::empty(p.shape, info.predicate ? kBool : p.dtype, p.device);
  backend(p.device).map(info.op, inputs, compute, out);
  return out;
}

void map_into(const MapInfo& info, std::span<const Operand> inputs, const Array& out) {
  Plan p = plan(info, inputs);
  if (info.floats_only && !is_floating(p.dtype)) p.dtype = kFloat32;
  check(out.defined() && out.device() == p.device, info.name, ": the output is not on ", p.device);
  check(broadcast_shapes(info.name, out.shape(), p.shape) == out.shape(), info.name, ": result of ",
        p.shape, " does not fit into ", out.shape());
  check(is_floating(out.dtype()) || !is_floating(p.dtype) || info.predicate, info.name,
        ": result of ", p.dtype, " cannot be stored in ", out.dtype(), "; convert with to()");
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
  backend(p.device).map(info.op, safe, compute_type(p.dtype), out);
  out.storage().bump_version();
}

}  // namespace hero::core::detail

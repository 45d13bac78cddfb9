// Elementwise operations: the choice of the kernel and its parameters.
#include <hero/core/kernels/elementwise.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/elementwise/map_kernels.cuh>
#include <hero/cuda/runtime/graph.cuh>

namespace hero::cuda {

namespace {

template <class... Fs>
bool is_predicate(uint16_t index, TypeList<Fs...>) {
  static constexpr bool table[] = {Fs::predicate...};
  return table[index];
}

// Whether vectors of `dtype` hold all of it; see vector_map_kernel.
bool one_storage(const Joint& joint, std::span<const Operand> inputs, DType dtype) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].array || inputs[k].array->dtype() == dtype) continue;
    const bool one = joint.inner_stride(static_cast<int>(k) + 1) == 0;
    if (!one || item_size(dtype) != 2 || inputs[k].array->dtype() != kFloat32) return false;
  }
  return true;
}

// Whether vectors can be read and written where the arrays lie; a repeated element may lie
// anywhere.
bool all_aligned(const Joint& joint, std::span<const Operand> inputs, const Array& out,
                 size_t out_bytes) {
  if (!aligned(out.bytes(), out_bytes)) return false;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Array* array = inputs[k].array;
    if (array && joint.inner_stride(static_cast<int>(k) + 1) == 1 && array->numel() > 1 &&
        !aligned(array->bytes(), kVectorBytes)) {
      return false;
    }
  }
  return true;
}

MapKernel<float> vector_kernel_for(DType storage, uint16_t index, TypeTag<float>) {
  if (storage == kBFloat16) return vector_map_kernel<BFloat16>(index);
  if (storage == kFloat16) return vector_map_kernel<Float16>(index);
  return storage == kFloat32 ? vector_map_kernel<float>(index) : nullptr;
}
MapKernel<double> vector_kernel_for(DType storage, uint16_t index, TypeTag<double>) {
  return storage == kFloat64 ? vector_map_kernel<double>(index) : nullptr;
}
// Integers are walked one by one: they are indices and masks, small beside the numbers.
template <class T>
MapKernel<T> vector_kernel_for(DType, uint16_t, TypeTag<T>) {
  return nullptr;
}

template <class T>
void map_as(uint16_t index, std::span<const Operand> inputs, const Array& out) {
  const bool predicate = is_predicate(index, core::kernels::MapList{});
  Joint joint(out);
  MapArgs<T> args;
  args.out_dtype = out.dtype();
  DType storage = out.dtype();
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Array* array = inputs[k].array;
    if (array) {
      joint.add(*array);
      if (predicate) storage = array->dtype();
    } else {
      joint.add_scalar();
      note_value("map", inputs[k].scalar.real());
    }
    args.dtypes[k] = array ? array->dtype() : out.dtype();
    args.scalars[k] = array ? T(0) : inputs[k].scalar.to<T>();
  }
  joint.join();
  MapKernel<T> kernel = nullptr;
  const int vector = kVectorBytes / static_cast<int>(item_size(storage));
  if (one_storage(joint, inputs, storage) && (!predicate || out.dtype() == kBool) &&
      joint.splits(vector) &&
      all_aligned(joint, inputs, out, static_cast<size_t>(vector * item_size(out.dtype())))) {
    kernel = vector_kernel_for(storage, index, TypeTag<T>{});
  }
  const bool partial = joint.ndim() == 1;
  if (kernel) {
    joint.split(vector);
  } else {
    kernel = strided_map_kernel<T>(index);
  }
  joint.pieces(kMaxPositions, [&](const Joint& piece) {
    args.walk = piece.walk();
    args.elements = partial ? out.numel() - piece.start(0) : std::numeric_limits<int64_t>::max();
    args.out = out.bytes() + piece.start(0) * item_size(out.dtype());
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Array* array = inputs[k].array;
      args.inputs[k] =
          array ? array->bytes() + piece.start(static_cast<int>(k) + 1) * item_size(array->dtype())
                : nullptr;
    }
    launch("map", kernel, loop_blocks(args.walk.count), dim3(kThreads), 0, args);
  });
}

}  // namespace

void CudaBackend::run(const call::Map& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  switch (call.compute) {
    case DType::float64:
      return map_as<double>(call.op.index, call.inputs, call.out);
    case DType::int64:
      return map_as<int64_t>(call.op.index, call.inputs, call.out);
    case DType::int32:
      return map_as<int32_t>(call.op.index, call.inputs, call.out);
    case DType::uint8:
      return map_as<uint8_t>(call.op.index, call.inputs, call.out);
    default:
      return map_as<float>(call.op.index, call.inputs, call.out);
  }
}

}  // namespace hero::cuda

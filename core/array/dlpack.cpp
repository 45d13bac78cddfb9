#include <memory>

#include <hero/core/accelerator.h>
#include <hero/core/array/checked.h>
#include <hero/core/dlpack.h>

namespace hero::core {

namespace {

using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;

dlpack::DLDataType dlpack_type(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * item_size(dtype));
  switch (dtype) {
    case kBool:
      return {dlpack::kDLBool, bits, 1};
    case kUInt8:
      return {dlpack::kDLUInt, bits, 1};
    case kInt32:
    case kInt64:
      return {dlpack::kDLInt, bits, 1};
    case kBFloat16:
      return {dlpack::kDLBfloat, bits, 1};
    default:
      return {dlpack::kDLFloat, bits, 1};
  }
}

const char* name_of_code(uint8_t code) {
  static constexpr const char* names[] = {"int",      "uint",    "float", "opaque handle",
                                          "bfloat16", "complex", "bool"};
  return code < std::size(names) ? names[code] : "one of a later standard";
}

DType dtype_of(const dlpack::DLDataType& type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const dlpack::DLDataType own = dlpack_type(static_cast<DType>(i));
    if (own.code == type.code && own.bits == type.bits && type.lanes == 1) {
      return static_cast<DType>(i);
    }
  }
  fail("from_dlpack: no dtype of Hero has elements of code ", int{type.code}, " (",
       name_of_code(type.code), ") with ", int{type.bits}, " bits and ", type.lanes,
       type.lanes == 1 ? " lane" : " lanes",
       "; convert them first to bool, uint8, int32, int64, float16, bfloat16, float32 or float64");
}

Device device_of(const dlpack::DLDevice& device) {
  if (device.device_type == dlpack::kDLCPU || device.device_type == dlpack::kDLCUDAHost) {
    return kCpu;
  }
  check(device.device_type == dlpack::kDLCUDA, "from_dlpack: the memory is on a device of kind ",
        device.device_type, ", and Hero knows the host, ", int{dlpack::kDLCPU}, " and ",
        int{dlpack::kDLCUDAHost}, ", and GPUs of NVIDIA, ", int{dlpack::kDLCUDA},
        "; copy it to the host first");
  check(device.device_id >= 0 && device.device_id <= INT8_MAX, "from_dlpack: there is no GPU ",
        device.device_id);
  const Device gpu{DeviceType::cuda, static_cast<int8_t>(device.device_id)};
  accelerator("from_dlpack", gpu);
  return gpu;
}

// The array over the memory of `tensor`; `done` is called when it is free, but not after an Error.
Array array_over(const dlpack::DLTensor& tensor, std::function<void()> done) {
  const DType dtype = dtype_of(tensor.dtype);
  const Device device = device_of(tensor.device);
  check(tensor.ndim >= 0 && tensor.ndim <= kMaxDims, "from_dlpack: ", tensor.ndim,
        " dimensions; an array has 0 to ", kMaxDims);
  check(tensor.shape || tensor.ndim == 0, "from_dlpack: the shape is null, and there are ",
        tensor.ndim, " dimensions");
  Shape shape;
  for (int i = 0; i < tensor.ndim; ++i) shape.push_back(tensor.shape[i]);
  const int64_t numel = shape.numel("from_dlpack");
  Dims strides = contiguous_strides(shape);
  for (int i = 0; tensor.strides && numel > 0 && i < tensor.ndim; ++i) {
    if (shape[i] == 1) continue;  // such a stride may be any number
    strides[i] = tensor.strides[i];
    check(strides[i] >= 0, "from_dlpack: dimension ", i, " of shape ", shape, " has the stride ",
          strides[i], "; arrays have none below 0: take a contiguous copy first");
  }
  std::byte* data = nullptr;
  int64_t bytes = 0;
  if (numel > 0) {
    check(tensor.data != nullptr, "from_dlpack: data is null, and shape ", shape, " has ", numel,
          " elements");
    const Checked last{"from_dlpack", last_position("from_dlpack", shape, strides, 0)};
    bytes = ((last + 1) * item_size(dtype)).value;
    data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
    check(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(item_size(dtype)) == 0,
          "from_dlpack: the first element is not aligned for ", dtype, ", whose elements take ",
          item_size(dtype), " bytes; copy it to memory that is");
  }
  // An Array checks in its constructor whether all fits into 64 bits, as here: nothing throws when
  // the storage has the memory.
  static_cast<void>(Checked{"from_dlpack", numel} * item_size(dtype));
  return Array(Storage::borrow(data, bytes, device, std::move(done)), shape, strides, 0, dtype);
}

template <class Managed>
std::function<void()> freeing(Managed* managed) {
  return [managed] {
    if (managed->deleter) managed->deleter(managed);
  };
}

// An array for another library, with the lists that it reads.
template <class Managed>
struct Lent {
  Managed managed{};
  Array array;
  Shape shape;
  Dims strides;
};

template <class Managed>
Lent<Managed>* lend(const Array& array) {
  check(array.defined(), "to_dlpack: the array is undefined");
  check(array.device().type != DeviceType::meta,
        "to_dlpack: an array on meta has no values to share");
  auto lent = std::make_unique<Lent<Managed>>();
  lent->array = array;
  lent->shape = array.shape();
  lent->strides = array.strides();
  dlpack::DLTensor& tensor = lent->managed.dl_tensor;
  tensor.data = array.numel() > 0 ? array.bytes() : nullptr;
  const bool on_gpu = array.device().type == DeviceType::cuda;
  tensor.device = {on_gpu ? dlpack::kDLCUDA : dlpack::kDLCPU,
                   on_gpu ? int32_t{array.device().index} : 0};
  tensor.ndim = array.ndim();
  tensor.dtype = dlpack_type(array.dtype());
  tensor.shape = lent->shape.begin();
  tensor.strides = lent->strides.begin();
  tensor.byte_offset = 0;
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = [](Managed* self) {
    delete static_cast<Lent<Managed>*>(self->manager_ctx);
  };
  return lent.release();
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Array& array, uint64_t flags) {
  check((flags & ~dlpack::kReadOnly) == 0, "to_dlpack: flags are ", flags,
        "; there is kReadOnly, 1, alone");
  auto* const lent = lend<DLManagedTensorVersioned>(array);
  lent->managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  lent->managed.flags = flags;
  return &lent->managed;
}

DLManagedTensor* to_dlpack_unversioned(const Array& array) {
  return &lend<DLManagedTensor>(array)->managed;
}

Array from_dlpack(DLManagedTensorVersioned* managed) {
  check(managed != nullptr, "from_dlpack: the pointer is null");
  check(managed->version.major == dlpack::kMajorVersion, "from_dlpack: the struct is of version ",
        managed->version.major, ".", managed->version.minor, " of DLPack, and Hero reads ",
        dlpack::kMajorVersion, ".x");
  check((managed->flags & dlpack::kReadOnly) == 0,
        "from_dlpack: the memory is read-only, and an array can be written to; let the other side "
        "copy it first");
  return array_over(managed->dl_tensor, freeing(managed));
}

Array from_dlpack(DLManagedTensor* managed) {
  check(managed != nullptr, "from_dlpack: the pointer is null");
  return array_over(managed->dl_tensor, freeing(managed));
}

}  // namespace hero::core

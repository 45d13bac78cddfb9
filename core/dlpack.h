#pragma once
// Exchange of arrays with other libraries by DLPack, a description of memory that both sides can
// read, so that nothing is copied. NumPy, PyTorch, JAX and CuPy have it as __dlpack__() and
// from_dlpack().
#include <cstdint>

#include <hero/core/array.h>

/// The structs of the DLPack standard, version 1.0, with its names and layout in memory. They lie
/// in a namespace, so that a program can include the standard's own header beside this one: a
/// pointer to one of its structs is given to a function here by reinterpret_cast.
namespace hero::dlpack {

inline constexpr uint32_t kMajorVersion = 1;
inline constexpr uint32_t kMinorVersion = 0;

/// The kinds of devices that Hero knows, by the standard's numbers.
enum DLDeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };

/// The kinds of elements, by the standard's numbers, up to bool. No dtype of Hero is of one of the
/// standard's later kinds.
enum DLDataTypeCode : uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
};

/// In DLManagedTensorVersioned::flags: nobody may write to the memory.
inline constexpr uint64_t kReadOnly = 1;
/// In DLManagedTensorVersioned::flags: the producer has copied the values for this consumer.
inline constexpr uint64_t kIsCopied = 2;

/// A device.
struct DLDevice {
  int32_t device_type;  ///< a DLDeviceType, or another number of the standard
  int32_t device_id;    ///< the number of the device among those of its kind
};

/// The type of an element.
struct DLDataType {
  uint8_t code;    ///< a DLDataTypeCode, or another number of the standard
  uint8_t bits;    ///< the bits of one number
  uint16_t lanes;  ///< the numbers of one element: 1, but for vectors
};

/// An array in memory that the struct does not own.
struct DLTensor {
  void* data;            ///< the address of the memory, for a GPU in device memory
  DLDevice device;       ///< where the memory is
  int32_t ndim;          ///< the number of dimensions
  DLDataType dtype;      ///< the type of the elements
  int64_t* shape;        ///< ndim sizes
  int64_t* strides;      ///< ndim strides in elements; null: row-major without gaps
  uint64_t byte_offset;  ///< the bytes from `data` to the first element
};

/// An array and the function that frees it, as the standard had them before version 1.0.
struct DLManagedTensor {
  DLTensor dl_tensor;                 ///< the array
  void* manager_ctx;                  ///< the producer's own
  void (*deleter)(DLManagedTensor*);  ///< called once, by the last holder; null: nothing to free
};

/// The version of the standard that a struct follows.
struct DLPackVersion {
  uint32_t major;  ///< if it is not kMajorVersion, only the deleter may be used
  uint32_t minor;  ///< above kMinorVersion there may be new kinds of devices or elements
};

/// An array and the function that frees it, since version 1.0.
struct DLManagedTensorVersioned {
  DLPackVersion version;                       ///< the version that the producer follows
  void* manager_ctx;                           ///< the producer's own
  void (*deleter)(DLManagedTensorVersioned*);  ///< as in DLManagedTensor
  uint64_t flags;                              ///< kReadOnly, kIsCopied
  DLTensor dl_tensor;                          ///< the array
};

}  // namespace hero::dlpack

namespace hero::core {

/// \name Arrays for other libraries
/// Returns a struct that describes the array's memory. The memory stays allocated until the deleter
/// is called, which has to happen once, by the other library or by the caller, on any thread. Until
/// then the bytes may not be released or offloaded. For an array without elements, `data` is null;
/// strides are always given. On a GPU, work that writes the array may still be queued: call
/// cuda::synchronize() before the other side reads. Throws an Error for an array that is undefined,
/// or on meta.
/// \{
/// The struct of version 1.0. `flags` are kReadOnly, if the other side is not to write, or 0.
dlpack::DLManagedTensorVersioned* to_dlpack(const Array& array, uint64_t flags = 0);
/// The struct from before version 1.0, the only one that older versions of other libraries accept.
dlpack::DLManagedTensor* to_dlpack_unversioned(const Array& array);
/// \}

/// \name Arrays from other libraries
/// Returns an array over the memory of `managed`, whose deleter is called when the last array over
/// that memory is destroyed, on the thread that destroys it. Work by which the other side writes
/// the memory on a GPU must have completed. Throws an Error, after which the caller still owns
/// `managed`, for null, a dtype that Hero does not have (the message names code, bits and lanes), a
/// device other than the host or a GPU of NVIDIA, more than kMaxDims dimensions, negative sizes or
/// strides, and addresses that are not aligned for the dtype.
/// \{
/// Throws an Error also for memory that is read-only, since arrays can be written to, and for a
/// struct of another major version.
Array from_dlpack(dlpack::DLManagedTensorVersioned* managed);
Array from_dlpack(dlpack::DLManagedTensor* managed);
/// \}

}  // namespace hero::core

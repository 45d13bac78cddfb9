#pragma once
// Per-device objects and scratch memory of the libraries that cuda/ calls.
#include <map>
#include <memory>
#include <mutex>

#include <hero/core/ledger.h>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

inline Device current_cuda(const char* op) {
  int index = 0;
  check_cuda(cudaGetDevice(&index), op);
  return {DeviceType::cuda, static_cast<int8_t>(index)};
}

/// The T(op) of the current device, made at the first call and never destroyed: a thread that ends
/// after main may still use it.
template <class T>
T& of_current_device(const char* op) {
  static std::mutex mutex;
  static auto& devices = *new std::map<int, std::unique_ptr<T>>;
  const int index = current_cuda(op).index;
  {
    const std::lock_guard lock(mutex);
    const auto found = devices.find(index);
    if (found != devices.end() && found->second) return *found->second;
  }
  const InCallGate gate(index);
  const std::lock_guard lock(mutex);
  std::unique_ptr<T>& value = devices[index];
  if (!value) value = std::make_unique<T>(op);
  return *value;
}

/// Scratch memory on the current device for one call; undefined if bytes is 0.
inline Array workspace(const char* op, int64_t bytes) {
  if (bytes == 0) return Array();
  const MemoryScope scope(MemoryTag::other);
  return Array::empty({bytes}, kUInt8, current_cuda(op));
}

}  // namespace hero::cuda

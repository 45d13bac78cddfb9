#include <algorithm>

#include <hero/cuda/reduce/sort_pairs.cuh>
#include <hero/cuda/runtime/runtime.cuh>
#if defined(HERO_CUSIM)
#include <numeric>
#include <vector>
#else
#include <cub/device/device_radix_sort.cuh>
#endif

namespace hero::cuda {

namespace {

// The backend of the sort: `room` is null in the first call, which sets `bytes`.
template <class Key, class Value>
cudaError_t radix_sort(void* room, size_t& bytes, const Key* keys, Key* sorted_keys,
                       const Value* values, Value* sorted_values, Value n, int bits) {
#if defined(HERO_CUSIM)
  bytes = 1;
  if (room == nullptr) return cudaSuccess;
  // work of the stream, as it is there
  cusim::enqueue("sort", current_stream(), [=] {
    const Key mask = bits >= static_cast<int>(8 * sizeof(Key)) ? ~Key{0} : (Key{1} << bits) - 1;
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (int64_t i = 0; i < n; ++i) {
      sorted_keys[i] = keys[order[static_cast<size_t>(i)]];
      sorted_values[i] = values[order[static_cast<size_t>(i)]];
    }
  });
  return cudaSuccess;
#else
  return cub::DeviceRadixSort::SortPairs(room, bytes, keys, sorted_keys, values, sorted_values, n,
                                         0, bits, current_stream());
#endif
}

template <class Key, class Value>
Pairs sort_as(const Array& keys, const Array& values, int bits) {
  const Pairs sorted{keys.empty_like(), values.empty_like()};
  size_t bytes = 0;
  const auto run = [&](void* room) {
    check_cuda(radix_sort(room, bytes, reinterpret_cast<const Key*>(keys.bytes()),
                          reinterpret_cast<Key*>(sorted.keys.bytes()),
                          reinterpret_cast<const Value*>(values.bytes()),
                          reinterpret_cast<Value*>(sorted.values.bytes()),
                          static_cast<Value>(keys.numel()), bits),
               "sort");
  };
  run(nullptr);
  const Array room =
      Array::empty({std::max<int64_t>(1, static_cast<int64_t>(bytes))}, kUInt8, keys.device());
  run(room.bytes());
  return sorted;
}

}  // namespace

Pairs sort_pairs(const Array& keys, const Array& values, int bits) {
  const bool wide = values.dtype() == kInt64;
  if (keys.dtype() == kInt64) {
    return wide ? sort_as<uint64_t, int64_t>(keys, values, bits)
                : sort_as<uint64_t, int32_t>(keys, values, bits);
  }
  return wide ? sort_as<uint32_t, int64_t>(keys, values, bits)
              : sort_as<uint32_t, int32_t>(keys, values, bits);
}

}  // namespace hero::cuda

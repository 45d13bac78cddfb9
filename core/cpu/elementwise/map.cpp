#include <array>
#include <optional>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/elementwise/map_kernels.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

template <>
MapKernel map_kernel_of<float>(uint16_t index);
template <>
MapKernel map_kernel_of<double>(uint16_t index);
template <>
MapKernel map_kernel_of<int64_t>(uint16_t index);
template <>
MapKernel map_kernel_of<int32_t>(uint16_t index);
template <>
MapKernel map_kernel_of<uint8_t>(uint16_t index);

namespace {

template <class... Fs>
constexpr std::array<bool, sizeof...(Fs)> predicates(TypeList<Fs...>) {
  return {Fs::predicate...};
}

constexpr int kMaxArity = 4;

// A scalar as a block of equal elements, filled once a chunk.
void fill_block(std::byte* block, int64_t count, DType dtype, Scalar value) {
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(reinterpret_cast<T*>(block), count, value.to<T>());
  });
}

struct MapJob {
  MapKernel kernel;
  std::span<const Operand> inputs;
  DType compute;
  std::array<std::optional<BlockReader>, kMaxArity> readers;
  std::optional<BlockWriter> writer;
  unsigned repeated = 0;  // inputs that are one element for all: scalars and arrays of one element
  bool direct = true;     // every array is read and written in place

  // A scalar, or the element of an array, `count` times.
  void fill(size_t i, std::byte* block, int64_t count) const {
    if (!readers[i]) return fill_block(block, count, compute, inputs[i].scalar);
    readers[i]->read(0, count, block);
  }

  void run(int64_t begin, int64_t end) const {
    Scratch scratch[kMaxArity + 1];
    const std::byte* blocks[kMaxArity];
    const bool spread = !kernel_repeats(inputs.size(), repeated);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if ((repeated >> i & 1u) == 0) continue;
      blocks[i] = scratch[i].bytes;
      fill(i, scratch[i].bytes, spread ? std::min(kBlock, end - begin) : 1);
    }
    // Without conversions the whole chunk is one call.
    const int64_t step = direct && !spread ? end - begin : kBlock;
    for (int64_t at = begin; at < end; at += step) {
      const int64_t count = std::min(step, end - at);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if ((repeated >> i & 1u) == 0) blocks[i] = readers[i]->read(at, count, scratch[i].bytes);
      }
      std::byte* spare = scratch[kMaxArity].bytes;
      kernel(count, blocks, spread ? 0 : repeated, writer->target(at, spare));
      writer->commit(at, count, spare);
    }
  }
};

// The common case of tiny arrays: no walks, no threads.
bool map_tiny(MapKernel kernel, std::span<const Operand> inputs, DType compute, DType stored,
              const Array& out) {
  constexpr int64_t kTiny = 16;
  const int64_t n = out.numel();
  if (n > kTiny || !out.is_contiguous() || out.dtype() != stored) return false;
  std::byte scalars[kMaxArity][kTiny * 8];
  const std::byte* blocks[kMaxArity];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Array* array = inputs[i].array;
    if (!array) {
      fill_block(scalars[i], n, compute, inputs[i].scalar);
      blocks[i] = scalars[i];
    } else if (array->is_contiguous() && array->numel() == n && array->dtype() == compute) {
      blocks[i] = array->bytes();
    } else {
      return false;
    }
  }
  kernel(n, blocks, 0, out.bytes());
  return true;
}

}  // namespace

MapKernel map_kernel(uint16_t index, DType compute) {
  switch (compute) {
    case DType::float64:
      return map_kernel_of<double>(index);
    case DType::int64:
      return map_kernel_of<int64_t>(index);
    case DType::int32:
      return map_kernel_of<int32_t>(index);
    case DType::uint8:
      return map_kernel_of<uint8_t>(index);
    default:
      return map_kernel_of<float>(index);
  }
}

bool map_is_predicate(uint16_t index) {
  static constexpr auto table = predicates(kernels::MapList{});
  return table[index];
}

void CpuBackend::map(MapOp op, std::span<const Operand> inputs, DType compute, const Array& out) {
  const int64_t n = out.numel();
  if (n == 0) return;
  const MapKernel kernel = map_kernel(op.index, compute);
  const DType stored = map_is_predicate(op.index) ? kBool : compute;
  if (map_tiny(kernel, inputs, compute, stored, out)) return;
  MapJob job{kernel, inputs, compute, {}, std::nullopt};
  job.writer.emplace(out, stored);
  job.direct = job.writer->direct();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Array* array = inputs[i].array;
    if (array) job.readers[i].emplace(*array, out.shape(), compute);
    if (!array || (array->numel() == 1 && n > 1)) {
      job.repeated |= 1u << i;
    } else {
      job.direct = job.direct && job.readers[i]->direct();
    }
  }
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { job.run(begin, end); });
}

void CpuBackend::copy(const Array& src, const Array& dst) {
  const int64_t n = dst.numel();
  if (n == 0) return;
  const BlockReader reader(src, dst.shape(), dst.dtype());
  const BlockWriter writer(dst, dst.dtype());
  const int64_t item = item_size(dst.dtype());
  if (reader.direct() && writer.direct()) {
    // Whole chunks: memcpy of a few KiB at a time takes up to three times as long.
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(writer.target(begin, nullptr), reader.read(begin, end - begin, nullptr),
                  static_cast<size_t>((end - begin) * item));
    });
    return;
  }
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      std::byte* target = writer.target(at, scratch.bytes);
      const std::byte* block = reader.read(at, count, target);
      if (!writer.direct()) {
        writer.commit(at, count, block);
      } else if (block != target) {
        std::memcpy(target, block, static_cast<size_t>(count * item));
      }
    }
  });
}

void CpuBackend::fill(const Array& out, Scalar value) {
  const int64_t n = out.numel();
  if (n == 0) return;
  const BlockWriter writer(out, out.dtype());
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      std::byte* target = writer.target(at, scratch.bytes);
      fill_block(target, count, out.dtype(), value);
      writer.commit(at, count, target);
    }
  });
}

}  // namespace hero::core::cpu

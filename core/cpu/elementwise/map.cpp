#include <array>
#include <optional>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/elementwise/map_kernels.h>
#include <hero/core/cpu/elementwise/moves.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/ledger.h>
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

template <class... Fs>
constexpr std::array<uint8_t, sizeof...(Fs)> repeating_arities(TypeList<Fs...>) {
  return {(Fs::repeats ? Fs::arity : 0)...};
}

constexpr int kMaxArity = 4;

// How a kernel gets an input.
enum class Access : uint8_t {
  block,     // read into scratch, a block at a time
  row,       // in place, as far as its elements lie side by side
  constant,  // one element, the same for all
};

struct MapJob {
  MapKernel kernel;
  std::span<const Operand> inputs;
  DType compute;
  std::array<std::optional<BlockReader>, kMaxArity> readers = {};
  std::array<Access, kMaxArity> access = {};
  std::optional<BlockWriter> writer = {};
  unsigned repeated = 0;  // inputs of which the kernel gets one element for all, or for a row
  bool in_place = true;   // what is read and written needs no block of scratch

  void add_inputs(uint16_t op, const Shape& shape) {
    unsigned wanted = 0;  // inputs that are the same for all, or along a row
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].array) readers[i].emplace(*inputs[i].array, shape, compute);
      if (is_constant(i) || (!lies_in_rows(i) && readers[i]->has_rows(0))) wanted |= 1u << i;
    }
    // Those for which there is a loop: all of them or, else, the first one that has its own.
    if (kernel_repeats(op, compute, wanted)) repeated = wanted;
    for (size_t i = 0; i < inputs.size() && repeated == 0; ++i) {
      const unsigned alone = wanted & 1u << i;
      if (alone != 0 && kernel_repeats(op, compute, alone)) repeated = alone;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool repeats = (repeated >> i & 1u) != 0;
      if (is_constant(i)) {
        access[i] = Access::constant;
      } else if (repeats || lies_in_rows(i)) {
        access[i] = Access::row;
      }
      if (!repeats && access[i] != Access::row) in_place = false;
    }
  }
  bool is_constant(size_t i) const { return !readers[i] || readers[i]->constant(); }
  bool lies_in_rows(size_t i) const { return readers[i]->direct() || readers[i]->has_rows(1); }

  void run(int64_t begin, int64_t end) const {
    Scratch scratch[kMaxArity + 1];
    const std::byte* blocks[kMaxArity];
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (access[i] != Access::constant) continue;
      blocks[i] = scratch[i].bytes;
      const int64_t count = (repeated >> i & 1u) != 0 ? 1 : std::min(kBlock, end - begin);
      if (readers[i]) {
        readers[i]->read(begin, count, scratch[i].bytes);
      } else {
        fill_block(scratch[i].bytes, count, compute, inputs[i].scalar);
      }
    }
    std::byte* const spare = scratch[kMaxArity].bytes;
    for (int64_t at = begin; at < end;) {
      const BlockWriter::Row to = writer->row(at, spare);
      int64_t count = std::min(in_place ? end - at : std::min(kBlock, end - at), to.count);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (access[i] != Access::row) continue;
        const BlockReader::Row row = readers[i]->row(at);
        blocks[i] = row.first;
        count = std::min(count, row.count);
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (access[i] == Access::block) blocks[i] = readers[i]->read(at, count, scratch[i].bytes);
      }
      kernel(count, blocks, repeated, to.first);
      if (to.first == spare) writer->commit(at, count, spare);
      at += count;
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

bool kernel_repeats(uint16_t index, DType compute, unsigned repeated) {
  static constexpr auto arities = repeating_arities(kernels::MapList{});
  return is_floating(compute) && arity_repeats(arities[index], repeated);
}

void BasicKernels::run(const call::Map& call) {
  const int64_t n = call.out.numel();
  if (n == 0) return;
  const MapKernel kernel = map_kernel(call.op.index, call.compute);
  const DType stored = map_is_predicate(call.op.index) ? kBool : call.compute;
  if (map_tiny(kernel, call.inputs, call.compute, stored, call.out)) return;
  MapJob job{kernel, call.inputs, call.compute};
  job.writer.emplace(call.out, stored);
  job.in_place = job.writer->has_rows();
  job.add_inputs(call.op.index, call.out.shape());
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { job.run(begin, end); });
}

namespace {

// Whether neighbours of dst lie far apart in src, and others are neighbours there.
bool is_turned(const Array& src, const Array& dst) {
  constexpr int64_t kSmall = 4096;
  if (dst.numel() < kSmall || src.shape() != dst.shape() || dst.strides().back() != 1) return false;
  bool is_dense = false;
  for (int i = 0; i + 1 < src.ndim(); ++i) {
    is_dense |= src.strides()[i] == 1 && src.shape()[i] > 1;
  }
  return is_dense && src.strides().back() > 1 && src.shape().back() > 1;
}

// What lines are turned in is no array of the program's.
constinit Ledger turning_ledger;

// Turned first, as they are, some lines at a time.
void copy_turned(BasicKernels& cpu, const Array& src, const Array& dst) {
  constexpr int64_t kPiece = 8 * kGrain;
  const int64_t count = dst.shape()[0], each = dst.numel() / count;
  if (each > kPiece && dst.ndim() > 2) {
    for (int64_t i = 0; i < count; ++i) copy_turned(cpu, src.select(0, i), dst.select(0, i));
    return;
  }
  const int64_t step = std::max<int64_t>(1, kPiece / each);
  const LedgerScope own(turning_ledger);
  for (int64_t i = 0; i < count; i += step) {
    const Array part = dst.slice(0, i, std::min(i + step, count));
    const Array turned = Array::empty(part.shape(), src.dtype());
    move_elements(src.slice(0, i, std::min(i + step, count)), turned);
    cpu.run(call::Copy{turned, part});
  }
}

}  // namespace

void BasicKernels::run(const call::Copy& call) {
  const int64_t n = call.dst.numel();
  if (n == 0) return;
  if (call.src.dtype() == call.dst.dtype()) return move_elements(call.src, call.dst);
  if (is_turned(call.src, call.dst)) return copy_turned(*this, call.src, call.dst);
  const BlockReader reader(call.src, call.dst.shape(), call.dst.dtype());
  const BlockWriter writer(call.dst, call.dst.dtype());
  const int64_t item = item_size(call.dst.dtype());
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

void BasicKernels::run(const call::Fill& call) {
  const int64_t n = call.out.numel();
  if (n == 0) return;
  const BlockWriter writer(call.out, call.out.dtype());
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      std::byte* target = writer.target(at, scratch.bytes);
      fill_block(target, count, call.out.dtype(), call.value);
      writer.commit(at, count, target);
    }
  });
}

}  // namespace hero::core::cpu

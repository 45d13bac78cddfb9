// Copies: on a device, from and to the host, and between devices.
#include <cstring>

#include <hero/core/device/planned_device.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/copy_kernels.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/runtime/before_wait.cuh>

namespace hero::cuda {

namespace {

void transfer(const void* src, void* dst, int64_t bytes, cudaMemcpyKind kind) {
  check_cuda(cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), kind, current_stream()), "copy");
}

bool is_dense(const Joint& joint) {
  return joint.ndim() == 1 && joint.inner_stride(0) == 1 && joint.inner_stride(1) == 1;
}

// The dimension, beside the last, along which the source's elements are neighbours; -1 where none
// is or tiles would be mostly empty.
int turned_dimension(const Joint& joint) {
  constexpr int64_t kWorth = 8;
  const int inner = joint.ndim() - 1;
  if (joint.inner_stride(0) != 1 || joint.inner_stride(1) <= 1 || joint.size(inner) < kWorth) {
    return -1;
  }
  for (int d = 0; d < inner; ++d) {
    if (joint.stride(1, d) == 1 && joint.size(d) >= kWorth) return d;
  }
  return -1;
}

void copy_turned(const Joint& joint, int turned, const Array& src, const Array& dst) {
  const int inner = joint.ndim() - 1;
  const int64_t item = item_size(dst.dtype());
  const TransposeArgs args{joint.without(turned, inner).walk(),
                           static_cast<uint32_t>(joint.size(turned)),
                           static_cast<uint32_t>(joint.size(inner)),
                           joint.stride(1, inner),
                           joint.stride(0, turned),
                           src.bytes() + joint.start(1) * item,
                           dst.bytes() + joint.start(0) * item};
  const uint32_t tiles = (args.rows + kTile - 1) / kTile * ((args.columns + kTile - 1) / kTile);
  const dim3 grid(tiles, std::min(args.walk.count, 65535u));
  launch("copy", transpose_copy(dst.dtype()), grid, dim3(kTile, kTileRows), 0, args);
}

// On one device, the calling thread's current one.
void copy_here(const Array& src, const Array& dst) {
  Joint joint(dst);
  joint.add(src);
  joint.join();
  const bool converts = src.dtype() != dst.dtype();
  if (!converts && is_dense(joint)) {
    if (src.bytes() == dst.bytes()) return;
    return transfer(src.bytes(), dst.bytes(), dst.nbytes(), cudaMemcpyDeviceToDevice);
  }
  const int64_t from = item_size(src.dtype()), to = item_size(dst.dtype());
  const int vector = copy_vector(src.dtype(), dst.dtype());
  const bool vectors =
      joint.splits(vector) && aligned(dst.bytes(), static_cast<size_t>(vector * to)) &&
      (joint.inner_stride(1) == 0 || aligned(src.bytes(), static_cast<size_t>(vector * from)));
  const bool partial = joint.ndim() == 1;
  if (vectors) joint.split(vector);
  const int turned = converts || vectors ? -1 : turned_dimension(joint);
  joint.pieces(kMaxPositions, [&](const Joint& piece) {
    if (turned >= 0) return copy_turned(piece, turned, src, dst);
    const CopyArgs args{
        piece.walk(), partial ? dst.numel() - piece.start(0) : std::numeric_limits<int64_t>::max(),
        src.bytes() + piece.start(1) * from, dst.bytes() + piece.start(0) * to};
    const CopyKernel kernel =
        vectors ? vector_copy(src.dtype(), dst.dtype()) : strided_copy(src.dtype(), dst.dtype());
    launch("copy", kernel, loop_blocks(args.walk.count), dim3(kThreads), 0, args);
  });
}

// Itself where the copy engine can take it as it is, else a dense copy in dst's dtype and shape.
Array dense_like(const Array& src, const Array& dst) {
  if (src.is_contiguous() && src.dtype() == dst.dtype() && src.shape() == dst.shape()) return src;
  Array dense = Array::empty(dst.shape(), dst.dtype(), src.device());
  core::backend(src.device()).run(core::call::Copy{src, dense});
  return dense;
}

// The host's memory is the caller's, who may free or change it on return. Up to kStagedBytes go by
// way of page-locked memory, and the host does not wait for the GPU.
void copy_from_host(const Array& src, const Array& dst) {
  const DeviceGuard guard(dst.device().index);
  const Array from = dense_like(src, dst);
  const Array to = dst.is_contiguous() ? dst : dst.empty_like();
  const bool pinned = is_pinned(from);
  if (!pinned) refuse_capture("copy", "memory of the host that is not page-locked is read");
  if (!pinned && from.nbytes() <= core::kStagedBytes) {
    copy_async(pin_memory(from), to);
  } else if (pinned && capturing()) {
    copy_async(from, to);
  } else {
    before_wait(dst.device().index);
    transfer(from.bytes(), to.bytes(), to.nbytes(), cudaMemcpyHostToDevice);
    wait_for_stream("copy");
  }
  if (!dst.is_contiguous()) copy_here(to, dst);
}

void copy_to_host(const Array& src, const Array& dst) {
  const DeviceGuard guard(src.device().index);
  const Array from = dense_like(src, dst);
  const Array to = dst.is_contiguous() ? dst : dst.empty_like();
  refuse_capture("copy", "the host reads values of the GPU (item(), to(kCpu), printing)");
  before_wait(src.device().index);  // the driver waits in the copy of what is not page-locked
  transfer(from.bytes(), to.bytes(), to.nbytes(), cudaMemcpyDeviceToHost);
  wait_for_stream("copy");
  if (!dst.is_contiguous()) core::cpu_backend().run(core::call::Copy{to, dst});
}

// Makes `waiting` wait for what `working`, the current device's stream, was given so far.
void order(cudaStream_t working, int waiting_device, cudaStream_t waiting) {
  cudaEvent_t event;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "copy");
  const cudaError_t recorded = cudaEventRecord(event, working);
  const DeviceGuard guard(waiting_device);
  const cudaError_t waits = cudaStreamWaitEvent(waiting, event, 0);
  cudaEventDestroy(event);
  check_cuda(recorded, "copy");
  check_cuda(waits, "copy");
}

// The reader waits for the source's device, and that device for the reader, whose source it may
// overwrite next.
void copy_between(const Array& src, const Array& dst) {
  const int from_device = src.device().index, to_device = dst.device().index;
  const DeviceGuard source(from_device);
  const Array from = dense_like(src, dst);
  const cudaStream_t there = current_stream();
  const DeviceGuard target(to_device);
  const cudaStream_t here = current_stream();
  const Array to = dst.is_contiguous() ? dst : dst.empty_like();
  {
    const DeviceGuard again(from_device);
    order(there, to_device, here);
  }
  check_cuda(cudaMemcpyPeerAsync(to.bytes(), to_device, from.bytes(), from_device,
                                 static_cast<size_t>(to.nbytes()), here),
             "copy");
  order(here, from_device, there);
  if (!dst.is_contiguous()) copy_here(to, dst);
}

}  // namespace

void CudaBackend::run(const call::Copy& call) {
  if (call.dst.numel() == 0) return;
  if (call.src.device().type != DeviceType::cuda) return copy_from_host(call.src, call.dst);
  if (call.dst.device().type != DeviceType::cuda) return copy_to_host(call.src, call.dst);
  if (!(call.src.device() == call.dst.device())) return copy_between(call.src, call.dst);
  const DeviceGuard guard(index_);
  copy_here(call.src, call.dst);
}

}  // namespace hero::cuda

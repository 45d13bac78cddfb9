#pragma once
// Activation offloading: arrays that are saved for backward are kept in host memory, or in a file,
// until backward needs them. Rhu, Gimelshein, Clemons, Zulfiqar and Keckler, "vDNN: Virtualized
// Deep Neural Networks for Scalable, Memory-Efficient Neural Network Design", arXiv 1602.08124.
#include <concepts>
#include <cstdint>
#include <utility>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/tensor.h>

namespace hero::core {
class SwapFile;
}

namespace hero {

/// Options of offload().
struct OffloadOptions {
  /// The file to which the bytes go, which must outlive the graph. If it is null, bytes of a GPU go
  /// to page-locked host memory, and bytes on the cpu stay where they are.
  core::SwapFile* disk = nullptr;
};

/// The bytes that offload() has moved; to and from files in whole blocks of SwapFile::kBlock.
struct OffloadTraffic {
  int64_t to_host = 0;    ///< from a device, in forward
  int64_t to_device = 0;  ///< back to the device, in backward
  int64_t to_disk = 0;    ///< to a file, in forward
  int64_t from_disk = 0;  ///< back from the file, in backward

  friend bool operator==(const OffloadTraffic&, const OffloadTraffic&) = default;
};

/// The bytes moved by the calling thread, since the thread began.
OffloadTraffic offload_traffic();

namespace detail {

/// Lives around one call of offload().
class OffloadScope {
 public:
  explicit OffloadScope(const OffloadOptions& options);
  ~OffloadScope();
  OffloadScope(const OffloadScope&) = delete;
  OffloadScope& operator=(const OffloadScope&) = delete;
  /// Called when the function has returned: begins to move out the arrays that it saved.
  void finish() const;

 private:
  OffloadOptions options_;
  const OffloadOptions* previous_;
};

}  // namespace detail

/// Returns fn(inputs...), one value, recorded as usual; but the arrays that its operations save for
/// backward are moved out of memory, and fetched when backward needs them. Each call of a thread is
/// a block: in forward, the arrays of one block are moved out while the next block is computed; in
/// backward, the arrays of the block before are fetched while a block runs. So at most two blocks
/// are in memory; a pass that retains the graph keeps the arrays that it has fetched until it ends.
///
/// A storage is moved out once only the graph refers to it: at the end of the call or, for the
/// input and the result of a block, at the beginning of one of the next two calls. Leaves, such as
/// parameters, stay in memory, as does every storage to which the program refers. Bits do not
/// change; hooks, grad(), create_graph, retain_graph and nesting work. Of a checkpoint() inside
/// offload() the inputs are moved, which are all that it keeps; offload() inside a checkpoint()
/// moves nothing, since operations save nothing there.
///
/// Throws an Error if the file is full or cannot be written; arrays that were not moved are then
/// still in memory. If the file returns other bytes than were written, the backward pass that needs
/// them throws an Error.
template <class F, std::same_as<Tensor>... In>
auto offload(const OffloadOptions& options, F&& fn, const In&... inputs) {
  if (!grad_enabled()) return fn(inputs...);
  const detail::OffloadScope scope(options);
  auto result = fn(inputs...);
  scope.finish();
  return result;
}

template <class F, std::same_as<Tensor>... In>
auto offload(F&& fn, const In&... inputs) {
  return offload(OffloadOptions{}, std::forward<F>(fn), inputs...);
}

}  // namespace hero

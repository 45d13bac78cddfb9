#pragma once
// Activation offload: what backward needs lies in the host's memory, or in a file, until backward
// comes there. Rhu, Gimelshein, Clemons, Zulfiqar and Keckler, "vDNN: Virtualized Deep Neural
// Networks for Scalable, Memory-Efficient Neural Network Design", arXiv 1602.08124.
#include <concepts>
#include <cstdint>
#include <utility>

#include <hero/autograd/grad_mode.h>
#include <hero/autograd/tensor.h>

namespace hero::core {
class SwapFile;
}

namespace hero {

struct OffloadOptions {
  /// Where the bytes go: into this file, which must outlive the graph. Null: those of a GPU go into
  /// page-locked memory of the host, and those that lie on the cpu stay where they are.
  core::SwapFile* disk = nullptr;
};

/// Bytes that offload() has moved, those of files in whole blocks of SwapFile::kBlock.
struct OffloadTraffic {
  int64_t to_host = 0;    ///< from a device, in forward
  int64_t to_device = 0;  ///< and back, in backward
  int64_t to_disk = 0;
  int64_t from_disk = 0;

  friend bool operator==(const OffloadTraffic&, const OffloadTraffic&) = default;
};

/// Of the calling thread's calls, since the thread began.
OffloadTraffic offload_traffic();

namespace detail {

/// Around one call of offload().
class OffloadScope {
 public:
  explicit OffloadScope(const OffloadOptions& options);
  ~OffloadScope();
  OffloadScope(const OffloadScope&) = delete;
  OffloadScope& operator=(const OffloadScope&) = delete;
  /// The function has returned: what it saved goes.
  void finish() const;

 private:
  OffloadOptions options_;
  const OffloadOptions* previous_;
};

}  // namespace detail

/// fn(inputs...), which returns one value, recorded as without; but what its operations save for
/// backward leaves the memory and comes back when backward asks. The calls of a thread are blocks:
/// while the backward of one runs, what the one before it in forward order saved is on its way, and
/// in forward what one of them saved goes while the next is computed. So two blocks at most are in
/// memory; a pass that retains the graph holds what it has brought until it ends.
///
/// A storage goes when nobody holds it but the graph: at the end of the call or, as a block's input
/// and its result, at the beginning of one of the next two. Leaves, such as parameters, stay, and
/// so does what the program holds. The bits are those without; hooks, grad(), create_graph,
/// retain_graph and nesting work. A checkpoint() inside leaves its inputs so, which are all that it
/// keeps; offload() inside a checkpoint() moves nothing, as nothing is kept there.
///
/// An Error where the file has no room or cannot be written: what did not leave is in memory. An
/// Error of the backward that needs it where the file gives other bytes than were written.
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

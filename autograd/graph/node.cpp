#include <utility>

#include <hero/autograd/graph/accumulate.h>
#include <hero/autograd/graph/anomaly.h>
#include <hero/autograd/graph/node.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/offload/offload_blocks.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/core/memory/allocator.h>
#include <hero/core/profile/places.h>

namespace hero {

namespace {

thread_local int64_t thread_nodes = 0;
thread_local uint64_t thread_sequence = 0;

}  // namespace

int64_t live_nodes() { return thread_nodes; }

bool detail::Node::drop_of_leaf() const {
  static_cast<const AccumulateGrad*>(this)->drop_edge();
  return false;  // drop_edge() has freed what was to be freed
}

void detail::Node::destroy(Node* node) {
  // [note: long chains] A node owns the one before it; freeing a chain by nested destructors would
  // overflow the stack. The first destroy on a thread frees what the others only enlist: in a list
  // through the nodes themselves, as a graph may go after the thread's other variables.
  thread_local constinit Node* waiting = nullptr;
  thread_local constinit bool running = false;
  node->walk_.store(reinterpret_cast<uintptr_t>(waiting), std::memory_order_relaxed);
  waiting = node;
  if (running) return;
  running = true;
  while (waiting) {
    Node* last = waiting;
    waiting = reinterpret_cast<Node*>(last->walk_.load(std::memory_order_relaxed));
    const auto bytes = last->bytes_;
    last->~Node();
    core::deallocate(last, bytes);
    --thread_nodes;
  }
  running = false;
}

namespace detail {

void* allocate_node(size_t bytes) {
  void* memory = core::allocate(static_cast<int64_t>(bytes));
  ++thread_nodes;
  return memory;
}

void count_node(int change) { thread_nodes += change; }

// Built in place: a move right after the strides were written would stall on them.
TensorImpl::TensorImpl(Array&& array) : data(std::move(array)), history(data.storage().history()) {}
TensorImpl::~TensorImpl() {
  Hooks* const lists = hooks.load(std::memory_order_acquire);
  // The node may outlive the tensor, and then must not find it.
  if (lists && lists->retaining) *lists->retaining = false;
  delete lists;
  AccumulateGrad::leave(*this);
}

Hooks& TensorImpl::make_hooks() {
  Hooks* known = hooks.load(std::memory_order_acquire);
  if (known) return *known;
  auto made = std::make_unique<Hooks>();
  if (hooks.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *known;  // another thread was first
}

void TensorImpl::destroy(TensorImpl* impl) {
  impl->~TensorImpl();
  core::deallocate(impl, sizeof(TensorImpl));
}

}  // namespace detail

detail::Edge detail::gradient_edge(const Tensor& tensor) {
  detail::TensorImpl* impl = tensor.impl();
  if (!impl) return {};
  detail::Recorder::renew(*impl);
  if (impl->grad_fn) return {impl->grad_fn, impl->output_index};
  if (!impl->requires_grad) return {};
  return {AccumulateGrad::of(*impl), 0};
}

bool detail::Recorder::wants_grad(const char* op, const Tensor& tensor) {
  TensorImpl* impl = tensor.impl();
  check(impl != nullptr, op, ": an input", kUndefined);
  check(impl->history == impl->data.storage().history() || follow_base(*impl), op,
        ": input of shape ", impl->data.shape(),
        " shares memory with a tensor that a recorded in-place operation changed; take the view "
        "again, or write out of place");
  return impl->requires_grad || impl->grad_fn;
}

bool detail::Recorder::begins(const Node& op, std::span<const Tensor* const> inputs) {
  const char* const name = op.name();
  bool wanted = false;
  for (const Tensor* input : inputs) wanted = wants_grad(name, *input) || wanted;
  return wanted && grad_enabled();
}

void detail::Recorder::connect(Node& node, std::span<const Tensor* const> inputs) {
  for (const Tensor* tensor : inputs) {
    const Node::Input& input = node.inputs_.emplace_back(gradient_edge(*tensor), tensor->array());
    // Newer than every input, also when they were recorded on other threads.
    if (input.edge.node && input.edge.node->sequence_ != AccumulateGrad::kFirst) {
      thread_sequence = std::max(thread_sequence, input.edge.node->sequence_);
    }
  }
  node.sequence_ = ++thread_sequence;
  if ((open_scopes & (kAnomalyScope | kProfileScope)) != 0 ||
      core::keeps_places.load(std::memory_order_relaxed)) [[unlikely]] {
    node.place_ = std::make_unique<std::string>(current_place());
  }
}

Tensor detail::Recorder::make_output(MultiOp& node, Array array, bool saves) {
  const int index = node.output_count();
  node.outputs_.emplace_back(array);
  Tensor result(std::move(array));
  if (is_floating(result.dtype())) {
    result.impl()->grad_fn = core::Ref<Node>::share(&node);
    result.impl()->output_index = index;
  }
  if (saves) node.save(result.array(), -1 - index);
  return result;
}

void detail::Recorder::copy_saved(const Tensor& result, const core::Storage& storage) {
  auto* op = dynamic_cast<MultiOp*>(result.impl()->grad_fn.get());
  if (!op) return;
  for (SavedArray& entry : op->saved_) {
    if (op->frame_) op->frame_->protect(entry.version, storage);
    if (entry.array.storage_ref().get() != &storage) continue;
    entry.array = entry.array.clone();
    entry.version = entry.array.storage().version();
  }
}

void MultiOp::save(const Array& array, int slot) {
  if (CheckpointFrame* frame = CheckpointFrame::current()) [[unlikely]] {
    frame_ = core::Ref<CheckpointFrame>::share(frame);
    saved_.emplace_back(Array(), frame->keep(array), slot);
    return;
  }
  saved_.emplace_back(array, array.storage().version(), slot);
  if (detail::offload_calls > 0) [[unlikely]] {
    const bool is_leaf =
        slot >= 0 && needs(slot) && input_edge(slot).node->sequence() == AccumulateGrad::kFirst;
    if (!is_leaf) detail::OffloadBlocks::current().note(array);
  }
}

Tensor MultiOp::saved(int slot) const {
  const std::string what =
      slot >= 0 ? "input " + std::to_string(slot)
                : (slot <= kKept ? "a value it kept" : "output " + std::to_string(-1 - slot));
  check(!released_, name(),
        ": backward ran through this graph before and freed it; pass "
        "retain_graph = true to the first");
  for (const SavedArray& entry : saved_) {
    if (entry.slot != slot) continue;
    const SavedArray& kept = frame_ ? frame_->fetch(entry.version) : entry;
    if (kept.array.storage().released()) [[unlikely]]
      detail::refill(kept.array.storage());
    check(
        kept.version == kept.array.storage().version(), name(), ": ", what, " of shape ",
        kept.array.shape(),
        " was changed in place after it was saved for backward; write out of place or clone() it");
    Tensor tensor(kept.array);
    detail::TensorImpl* impl = tensor.impl();
    if (slot < 0) {
      impl->grad_fn = core::Ref<detail::Node>::share(const_cast<MultiOp*>(this));
      impl->output_index = -1 - slot;
    } else if (needs(slot)) {
      const detail::Edge& edge = input_edge(slot);
      if (edge.node->sequence() == AccumulateGrad::kFirst) {
        const auto* leaf = static_cast<const AccumulateGrad*>(edge.node.get());
        leaf->check_current();
        return Tensor::from_impl(core::Ref<detail::TensorImpl>::share(&leaf->leaf()));
      }
      impl->grad_fn = edge.node;
      impl->output_index = edge.index;
    }
    return tensor;
  }
  fail(name(), ": ", what, " was not saved for backward; name it in kSaveInputs or kSaveOutputs");
}

void MultiOp::release() {
  if (frame_) {
    for (const SavedArray& entry : saved_) frame_->forget(entry.version);
    frame_.reset();
  }
  // What saved nothing can run again.
  released_ = released_ || !saved_.empty();
  saved_.clear();
}

}  // namespace hero

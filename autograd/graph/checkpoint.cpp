// [note: frames] The graph of a checkpointed call is an ordinary one, but its operations hold
// numbers in place of saved arrays. When backward first needs one of these arrays, the frame calls
// the function again, and the arrays that the operations of this second run save, in the same
// order, are those of the numbers. The second graph is dropped. So the engine has no code for
// checkpoints.
#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/graph/engine.h>
#include <hero/autograd/offload/offload_blocks.h>
#include <hero/core/profile/observer.h>
#include <hero/core/threads/thread_state.h>

namespace hero {

namespace {

thread_local CheckpointFrame* current_frame = nullptr;
thread_local int again_depth = 0;
[[maybe_unused]] const core::ThreadSlot<int> kAgainSlot([] { return again_depth; },
                                                        [](int depth) { again_depth = depth; });

/// Everything outside the function that its second run must find as the first did.
class Restored {
 public:
  Restored(Generator::State random, BatchPart part, const AutocastOptions& autocast)
      : random_(default_generator().state()), part_(batch_part()), autocast_(autocast) {
    default_generator().set_state(random);
    batch_part() = part;
    ++again_depth;
  }
  ~Restored() {
    --again_depth;
    default_generator().set_state(random_);
    batch_part() = part_;
  }

 private:
  Generator::State random_;
  BatchPart part_;
  EnableGrad record_;
  Autocast autocast_;
};

}  // namespace

bool recomputing() { return again_depth > 0; }

CheckpointFrame* CheckpointFrame::current() { return current_frame; }

CheckpointScope::CheckpointScope(core::Ref<CheckpointFrame> frame)
    : frame_(std::move(frame)), previous_(current_frame) {
  current_frame = frame_.get();
}

CheckpointScope::~CheckpointScope() {
  current_frame = previous_;
  frame_->phase_ = CheckpointFrame::Phase::waiting;
}

core::Ref<CheckpointFrame> CheckpointFrame::create(Again again, const std::vector<Tensor>& inputs) {
  auto frame = core::Ref<CheckpointFrame>::adopt(new CheckpointFrame);
  frame->again_ = std::move(again);
  frame->outer_ = core::Ref<CheckpointFrame>::share(current_frame);
  frame->random_ = default_generator().state();
  frame->part_ = batch_part();
  frame->autocast_ = autocast_options();
  for (const Tensor& x : inputs) {
    Input& input = frame->inputs_.emplace_back();
    input.defined = x.defined();
    if (!x.defined()) continue;
    input.requires_grad = x.requires_grad();
    if (current_frame) {
      input.kept.version = current_frame->keep(x.array());
    } else {
      input.kept = {x.array(), x.array().storage().version(), 0};
      if (detail::offload_calls > 0 && !x.is_leaf()) {
        detail::OffloadBlocks::current().note(x.array());
      }
    }
  }
  return frame;
}

uint32_t CheckpointFrame::keep(const Array& array) {
  const uint32_t version = array.storage().version();
  if (phase_ != Phase::again) {
    specs_.push_back({array.shape(), array.dtype(), version});
    return static_cast<uint32_t>(specs_.size() - 1);
  }
  const size_t index = arrays_.size();
  check(index < specs_.size(), "checkpoint: run again, the function saved more than the first ",
        specs_.size(), " arrays; it must do the same both times");
  const Spec& first = specs_[index];
  check(first.shape == array.shape() && first.dtype == array.dtype(),
        "checkpoint: run again, the function saved ", array.dtype(), " ", array.shape(), " where ",
        first.dtype, " ", first.shape, " came first; it must do the same both times");
  check(first.version == version, "checkpoint: a tensor of shape ", array.shape(),
        " that the function uses was changed in place between forward and backward; write out of "
        "place or clone() it");
  arrays_.push_back({array, version, 0});
  return static_cast<uint32_t>(index);
}

const SavedArray& CheckpointFrame::fetch(uint32_t index) {
  if (index >= arrays_.size() || !arrays_[index].array.defined()) run_again();
  return arrays_[index];
}

void CheckpointFrame::forget(uint32_t index) {
  if (index < arrays_.size()) arrays_[index] = {};
}

void CheckpointFrame::protect(uint32_t index, const core::Storage& storage) {
  if (index >= arrays_.size() || arrays_[index].array.storage_ref().get() != &storage) return;
  Array& array = arrays_[index].array;
  array = array.clone();
  arrays_[index].version = array.storage().version();
}

std::vector<Tensor> CheckpointFrame::fresh_inputs() {
  std::vector<Tensor> fresh;
  for (Input& input : inputs_) {
    Tensor& x = fresh.emplace_back();
    if (!input.defined) continue;
    // A copy: another fetch from the outer frame may move its arrays.
    const SavedArray kept = outer_ ? outer_->fetch(input.kept.version) : input.kept;
    check(kept.version == kept.array.storage().version(), "checkpoint: input ", fresh.size() - 1,
          " of shape ", kept.array.shape(),
          " was changed in place between forward and backward; write out of place or clone() it");
    x = Tensor(kept.array, input.requires_grad);
  }
  for (const Input& input : inputs_) {
    if (outer_ && input.defined) outer_->forget(input.kept.version);
  }
  return fresh;
}

void CheckpointFrame::run_again() {
  check(phase_ == Phase::waiting,
        "checkpoint: the function runs a backward pass itself; leave that part outside");
  const std::vector<Tensor> inputs = fresh_inputs();
  arrays_.clear();
  {
    const core::Ref<CheckpointFrame> self = core::Ref<CheckpointFrame>::share(this);
    const CheckpointScope scope(self);
    phase_ = Phase::again;
    const Restored restored(random_, part_, autocast_);
    const ProfileScope profiled("recompute");
    again_(inputs);
  }
  check(arrays_.size() == specs_.size(), "checkpoint: run again, the function saved ",
        arrays_.size(), " arrays instead of ", specs_.size(), "; it must do the same both times");
  if (!backward_running()) return;
  // Operations let go of theirs one by one; this is for those that a retained graph still holds.
  on_backward_end([self = core::Ref<CheckpointFrame>::share(this)] {
    if (!backward_has_rest()) self->arrays_.clear();
  });
}

Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions,
                             int segments, const Tensor& x) {
  const int count = static_cast<int>(functions.size());
  check(segments >= 1 && segments <= std::max(count, 1), "checkpoint_sequential: ", segments,
        " segments for ", count, " functions; there must be at least one function a segment");
  const int size = count / segments, last = (segments - 1) * size;
  Tensor y = x;
  for (int begin = 0; begin < last; begin += size) {
    const std::vector piece(functions.begin() + begin, functions.begin() + begin + size);
    const auto chain = [piece](Tensor z) {
      for (const auto& function : piece) z = function(z);
      return z;
    };
    y = checkpoint(chain, y);
  }
  for (int i = last; i < count; ++i) y = functions[static_cast<size_t>(i)](y);
  return y;
}

}  // namespace hero

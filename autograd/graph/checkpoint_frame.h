#pragma once
// CheckpointFrame: what a call of checkpoint() keeps instead of activations; for op.h, node.cpp and
// checkpoint.h.
#include <functional>
#include <vector>

#include <hero/autograd/ops/autocast.h>
#include <hero/core/random.h>

namespace hero {

/// An array saved for backward, with the version of its storage at that time.
struct SavedArray {
  Array array;
  uint32_t version = 0;
  int slot = 0;  // input i: i; output i: -1 - i. For a node in a frame, version is keep()'s number
};

/// One call of checkpoint(). Operations recorded while it is current save nothing: each array gets
/// a number, and fetch() runs the function again to have them all.
class CheckpointFrame : public core::Counted {
 public:
  using Again = std::function<void(const std::vector<Tensor>& inputs)>;

  static core::Ref<CheckpointFrame> create(Again again, const std::vector<Tensor>& inputs);
  static void destroy(CheckpointFrame* frame) { delete frame; }
  /// The frame of the innermost checkpoint() now running on this thread; null outside of all.
  static CheckpointFrame* current();

  /// Numbers an array that an operation saves.
  uint32_t keep(const Array& array);
  /// The array to which keep() gave this number.
  const SavedArray& fetch(uint32_t index);
  /// Releases the array of this number; fetch() can restore it.
  void forget(uint32_t index);
  /// Replaces the array of this number by a copy if it is in `storage`, which is about to be
  /// overwritten.
  void protect(uint32_t index, const core::Storage& storage);

 private:
  friend class CheckpointScope;
  enum class Phase : uint8_t { forward, waiting, again };
  struct Spec {
    Shape shape;
    DType dtype;
    uint32_t version;
  };
  struct Input {
    SavedArray kept;  // undefined inside another frame, which has it under the number `version`
    bool defined = false;
    bool requires_grad = false;
  };

  CheckpointFrame() = default;
  void run_again();
  std::vector<Tensor> fresh_inputs();

  Again again_;
  core::Ref<CheckpointFrame> outer_;
  std::vector<Input> inputs_;
  std::vector<Spec> specs_;         // what forward saved
  std::vector<SavedArray> arrays_;  // the same, after running again
  Generator::State random_;
  BatchPart part_;
  AutocastOptions autocast_;
  Phase phase_ = Phase::forward;
};

/// Makes a frame current while it lives.
class CheckpointScope {
 public:
  explicit CheckpointScope(core::Ref<CheckpointFrame> frame);
  ~CheckpointScope();
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

 private:
  core::Ref<CheckpointFrame> frame_;
  CheckpointFrame* previous_;
};

}  // namespace hero

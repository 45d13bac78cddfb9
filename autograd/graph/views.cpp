// Histories of tensors that share memory: a recorded write through a view also enters the history
// of its base, and the history of a view is renewed if its base was written to.
#include <utility>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/overlap.h>

namespace hero {

namespace {

// Where the elements of a view lie among those of its base, both of one storage.
struct Window {
  Window(const Array& base, const Array& view)
      : whole(base.shape()),
        whole_strides(base.strides()),
        part(view.shape()),
        part_strides(view.strides()),
        offset(view.offset() - base.offset()) {}

  // Memory in which elements lie as in that of the base, and both as views of it.
  struct Copy {
    Copy(const Window& window, DType dtype, Device device) {
      int64_t length = window.whole.numel() > 0 ? 1 : 0;
      for (int i = 0; i < window.whole.size() && length > 0; ++i) {
        length += window.whole_strides[i] * (window.whole[i] - 1);
      }
      const Array memory = Array::zeros({length}, dtype, device);
      whole = memory.as_strided(window.whole, window.whole_strides, 0);
      if (window.part.numel() > 0) {
        part = memory.as_strided(window.part, window.part_strides, window.offset);
      } else {
        part = Array::zeros(window.part, dtype, device);
      }
    }
    Array whole, part;
  };

  Shape whole;
  Dims whole_strides;
  Shape part;
  Dims part_strides;
  int64_t offset;
};

// The whole with the part in its window. `written` is the result where memory has it already.
struct PutPart : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Window window;
  Array written;
  PutPart(const Window& w, Array known) : window(w), written(std::move(known)) {}
  const char* name() const override { return "put_view"; }
  Array forward(const Array& whole, const Array& part) {
    if (written.defined()) return std::exchange(written, Array());
    const Window::Copy copy(window, whole.dtype(), whole.device());
    core::backend(whole.device()).run(core::call::Copy{whole, copy.whole});
    core::backend(whole.device()).run(core::call::Copy{part, copy.part});
    return copy.whole;
  }
  Grads backward(const Tensor& g) override;
};

// The part in the window of the whole. `written` as above.
struct TakePart : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  Window window;
  Array written;
  bool overlaps;
  TakePart(const Window& w, Array known, bool again)
      : window(w), written(std::move(known)), overlaps(again) {}
  const char* name() const override { return "take_view"; }
  Array forward(const Array& whole) {
    if (written.defined()) return std::exchange(written, Array());
    if (whole.strides() == window.whole_strides && window.part.numel() > 0) {
      return whole.as_strided(window.part, window.part_strides, whole.offset() + window.offset);
    }
    const Window::Copy copy(window, whole.dtype(), whole.device());
    core::backend(whole.device()).run(core::call::Copy{whole, copy.whole});
    return copy.part;
  }
  Grads backward(const Tensor& g) override {
    if (overlaps) return {add_up(g)};
    const Tensor zeros(Array::zeros(window.whole, g.dtype(), g.device()));
    return {record(PutPart(window, {}), zeros, g)};
  }

 private:
  // Elements that the part has several times get the sum of their gradients.
  Tensor add_up(const Tensor& g) const {
    const Array all = detail::positions(window.whole.numel(), g.device());
    const Window::Copy copy(window, kInt64, g.device());
    core::backend(g.device()).run(core::call::Copy{all.reshape(window.whole), copy.whole});
    return detail::place_zeros(g, window.whole, copy.part);
  }
};

Grads PutPart::backward(const Tensor& g) {
  Grads grads{Tensor(), Tensor()};
  if (needs(0)) {
    const Tensor zeros(Array::zeros(window.part, g.dtype(), g.device()));
    grads[0] = record(PutPart(window, {}), g, zeros);
  }
  if (needs(1)) grads[1] = record(TakePart(window, {}, false), g);
  return grads;
}

// `x` has the history of `result` from now on. A gradient that is to be kept is that of the new
// values.
void take_history(const Tensor& x, const Tensor& result) {
  detail::TensorImpl* impl = x.impl();
  impl->grad_fn = result.impl()->grad_fn;
  impl->detached = impl->detached && !impl->grad_fn;
  impl->output_index = result.impl()->output_index;
  if (!impl->retains_grad) return;
  *impl->make_hooks().retaining = false;
  impl->retains_grad = false;
  if (x.requires_grad()) x.retain_grad();
}

// Whether the base's history is that of its values, and the view's can be made from it.
bool follows_base(const detail::TensorImpl& view) {
  detail::TensorImpl* base = view.base.get();
  if (base) detail::Recorder::renew(*base);
  return base && &base->data.storage() == &view.data.storage() &&
         base->history == view.data.storage().history() && !core::overlaps_itself(base->data);
}

}  // namespace

void detail::Recorder::link_view(const Tensor& view, const Tensor& of) {
  TensorImpl& impl = *view.impl();
  if (&impl.data.storage() != &of.array().storage() || !is_floating(impl.data.dtype())) return;
  const core::Ref<TensorImpl>& base = of.impl()->base ? of.impl()->base : of.impl_ref();
  // A leaf that requires grad is not written to while recording.
  if (base->grad_fn || !base->requires_grad) impl.base = base;
}

bool detail::Recorder::shows_leaf(const Tensor& view) {
  const TensorImpl* base = view.impl()->base.get();
  return base && base->requires_grad && &base->data.storage() == &view.array().storage();
}

bool detail::Recorder::follow_base(TensorImpl& impl) {
  if (impl.requires_grad) return false;
  if (impl.detached) {
    impl.history = impl.data.storage().history();
    return true;
  }
  if (!follows_base(impl)) return false;
  const GradMode recorded(true);
  const Tensor base = Tensor::from_impl(impl.base);
  const Tensor again = record(
      TakePart(Window(base.array(), impl.data), impl.data, core::overlaps_itself(impl.data)), base);
  impl.history = impl.data.storage().history();
  take_history(Tensor::from_impl(core::Ref<TensorImpl>::share(&impl)), again);
  return true;
}

void detail::Recorder::rebase(const Tensor& self, const Tensor& result) {
  TensorImpl* impl = self.impl();
  core::Storage& storage = impl->data.storage();
  const bool with_base = follows_base(*impl);
  storage.bump_history();
  impl->history = storage.history();
  take_history(self, result);
  if (!with_base) return;
  impl->base->history = storage.history();
  const Tensor base = Tensor::from_impl(impl->base);
  take_history(base, record(PutPart(Window(base.array(), impl->data), base.array()), base, result));
}

void detail::Recorder::replace(const Tensor& self, const Tensor& view) {
  self.impl()->data = view.array();
  take_history(self, view);
}

}  // namespace hero

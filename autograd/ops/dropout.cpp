// Dropout: the mask is one byte an element and comes from a stream of its own.
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/op.h>
#include <hero/core/backend.h>
#include <hero/core/map.h>
#include <hero/core/random.h>

namespace hero {

namespace {

// x mask scale; its own derivative.
struct MaskAndScale : Op {
  static constexpr unsigned kSaveInputs = 0b10;
  double scale;
  explicit MaskAndScale(double s) : scale(s) {}
  const char* name() const override { return "dropout"; }
  Array forward(const Array& x, const Array& mask) {
    return core::map<core::kernels::Addcmul>(Scalar(0), x, mask, Scalar(scale));
  }
  Grads backward(const Tensor& g) override {
    return {record(MaskAndScale(scale), g, input(1)), Tensor()};
  }
};

Array draw_mask(const Shape& shape, Device device, double keep) {
  const Stream stream = default_generator().next();
  core::RandomFill fill;
  fill.kind = core::RandomFill::Kind::bernoulli;
  fill.seed = stream.key;
  fill.stream = stream.id;
  fill.a = keep;
  const Array mask = Array::empty(shape, kBool, device);
  core::backend(device).random(fill, 0, mask);
  return mask;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  check(p >= 0.0 && p <= 1.0, "dropout: p is outside [0, 1]: ", p);
  check(is_floating(x.dtype()), "dropout: x is ", x.dtype(), "; convert it to a floating dtype");
  if (!training || p == 0.0) return x;
  if (p == 1.0) return x * 0.0;
  return record(MaskAndScale(1.0 / (1.0 - p)), x,
                Tensor(draw_mask(x.shape(), x.device(), 1.0 - p)));
}

}  // namespace hero

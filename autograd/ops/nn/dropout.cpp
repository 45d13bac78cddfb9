// Dropout: the mask comes from a stream of its own and is never stored. This thread's part of a
// batch gets its part of the mask.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/core/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/random.h>

namespace hero {

namespace {

// x mask scale; its own derivative. The mask is drawn again in backward, from the same stream.
struct Dropout : Op {
  core::RandomFill fill;
  int64_t first;
  double scale;
  Dropout(const core::RandomFill& f, int64_t at, double s) : fill(f), first(at), scale(s) {}
  const char* name() const override { return "dropout"; }
  Array forward(const Array& x) {
    const Array out = x.empty_like();
    core::backend(x.device()).random_mask(fill, first, scale, x, out);
    return out;
  }
  Grads backward(const Tensor& g) override { return {record(Dropout(fill, first, scale), g)}; }
};

core::RandomFill next_mask(double keep) {
  const Stream stream = default_generator().next();
  core::RandomFill fill;
  fill.kind = core::RandomFill::Kind::bernoulli;
  fill.seed = stream.key;
  fill.stream = stream.id;
  fill.a = keep;
  return fill;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  detail::check_defined("dropout", {{"x", x}});
  check(p >= 0.0 && p <= 1.0, "dropout: p is outside [0, 1]: ", p);
  check(is_floating(x.dtype()), "dropout: x is ", x.dtype(), "; convert it to a floating dtype");
  if (!training || p == 0.0) return x;
  if (p == 1.0) return x * 0.0;
  const int64_t first = batch_part().rank * x.numel();
  return record(Dropout(next_mask(1.0 - p), first, 1.0 / (1.0 - p)), x);
}

}  // namespace hero

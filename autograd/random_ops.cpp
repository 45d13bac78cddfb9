// Random tensors: each call takes the next stream of this thread's generator, on every device, so
// that a program draws the same numbers whether or not some of its tensors are only planned.
#include <hero/autograd/creation.h>
#include <hero/core/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>
#include <hero/core/random.h>

namespace hero {

namespace {

using core::RandomFill;

Array drawn(RandomFill fill, const Shape& shape, DType dtype, Device device) {
  const Stream stream = default_generator().next();
  fill.seed = stream.key;
  fill.stream = stream.id;
  const Array out = Array::empty(shape, dtype, device);
  core::backend(device).random(fill, 0, out);
  return out;
}

Tensor floats(const char* op, RandomFill::Kind kind, const Shape& shape,
              const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(kFloat32);
  check(is_floating(dtype), op, ": needs a floating dtype, not ", dtype);
  RandomFill fill;  // uniform in [0, 1) or standard normal
  fill.kind = kind;
  return Tensor(drawn(fill, shape, dtype, options.device), options.requires_grad);
}

TensorOptions like(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }

}  // namespace

Tensor rand(const Shape& shape, const TensorOptions& options) {
  return floats("rand", RandomFill::Kind::uniform, shape, options);
}

Tensor randn(const Shape& shape, const TensorOptions& options) {
  return floats("randn", RandomFill::Kind::normal, shape, options);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options) {
  check(low < high, "randint: no integer lies in [", low, ", ", high, ")");
  RandomFill fill;
  fill.kind = RandomFill::Kind::integer;
  fill.low = low;
  fill.high = high;
  return Tensor(drawn(fill, shape, options.dtype.value_or(kInt64), options.device),
                options.requires_grad);
}

Tensor randperm(int64_t n, const TensorOptions& options) {
  check(n >= 0, "randperm: negative size ", n);
  const Stream stream = default_generator().next();
  const DType dtype = options.dtype.value_or(kInt64);
  if (options.device.type == DeviceType::meta) {
    return Tensor(Array::empty({n}, dtype, options.device), options.requires_grad);
  }
  const Array order = Array::empty({n}, kInt64);
  fill_permutation(std::span<int64_t>(order.data<int64_t>(), static_cast<size_t>(n)), stream);
  return Tensor(order.to(dtype).to(options.device), options.requires_grad);
}

Tensor bernoulli(const Tensor& p) {
  check(is_floating(p.dtype()), "bernoulli: probabilities are ", p.dtype(),
        "; they must be floating");
  if (p.device().type != DeviceType::meta && p.numel() > 0) {
    const double low = core::reduce(core::ReduceKind::min, p.array()).item();
    const double high = core::reduce(core::ReduceKind::max, p.array()).item();
    check(low >= 0.0 && high <= 1.0, "bernoulli: probabilities lie outside [0, 1]: ", low, " to ",
          high);
  }
  // In float64 also for lower precision: p is met to 2^-53.
  const Array uniform = drawn({}, p.shape(), kFloat64, p.device());
  return Tensor(core::map<core::kernels::Less>(uniform, p.array()).to(p.dtype()));
}

Tensor rand_like(const Tensor& x) { return rand(x.shape(), like(x)); }
Tensor randn_like(const Tensor& x) { return randn(x.shape(), like(x)); }

}  // namespace hero

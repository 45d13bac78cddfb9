#include <algorithm>
#include <map>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/ledger.h>
#include <hero/core/random.h>
#include <hero/dist/compress/error_feedback.h>
#include <hero/dist/ddp_comm_hooks.h>

// m rows and k columns of a matrix M, r columns of its factors P [m, r] and Q [k, r]

namespace hero::dist {

namespace k = core::kernels;

struct PowerSGDHook::State {
  PowerSGDOptions options;
  ErrorFeedback errors;
  std::map<std::string, Array> factors;  // Q of a step before, by parameter

  Array first_factor(const std::string& name, const Shape& shape, Device device) const;
  Array factor(const std::string& name, const Shape& shape, Device device) const;
};

namespace {

constexpr std::string_view kFactorKey = "factor.";

void copy_into(const Array& from, const Array& to) {
  if (to.numel() > 0) core::backend(to.device()).run(core::call::Copy{from, to});
}

// Gram and Schmidt, column by column, and each twice: what is left of a column that the others
// nearly are is mostly rounding, and not yet at right angles to them. A column of zeros stays.
void orthonormalise(const Tensor& p) {
  for (int64_t c = 0; c < p.size(1); ++c) {
    const Tensor column = p.select(1, c);
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t before = 0; before < c; ++before) {
        const Tensor other = p.select(1, before);
        column.sub_(sum(column * other) * other);
      }
      const Tensor length = norm(column);
      column.div_(where(length == 0.0, 1.0, length));
    }
  }
}

// One bucket on its way.
class PowerExchange {
 public:
  PowerExchange(GradBucket bucket, std::shared_ptr<PowerSGDHook::State> state)
      : bucket_(std::move(bucket)), state_(std::move(state)) {
    const NoGrad no_grad;
    const MemoryScope tag(MemoryTag::communication);
    values_ = bucket_.buffer;
    if (state_->options.error_feedback) {
      values_ = state_->errors.of(bucket_);
      core::map_into<k::Add>(values_, values_, bucket_.buffer);
    }
    place();
    first_ = Array::zeros({vectors_ + of_p_}, kFloat32, values_.device());
    second_ = Array::zeros({of_q_}, kFloat32, values_.device());
    for (const Part& part : parts_) {
      const Array p = first_.slice(0, part.p, part.p + (part.r > 0 ? part.m * part.r : part.m));
      if (part.r == 0) {
        copy_into(flat(values_, part), p);
      } else {
        const Tensor q(state_->factor(part.name, {part.k, part.r}, values_.device()));
        copy_into(matmul(matrix(values_, part), q).array().reshape({p.numel()}), p);
      }
    }
  }

  Work reduce_p() const { return bucket_.comm.all_reduce(first_, bucket_.mean); }
  Work reduce_q() const {
    const NoGrad no_grad;
    for (const Part& part : parts_) {
      if (part.r == 0) continue;
      const Tensor p = p_of(part);
      orthonormalise(p);
      copy_into(matmul(matrix(values_, part).transpose(0, 1), p).array(), q_of(part).array());
    }
    return bucket_.comm.all_reduce(second_, bucket_.mean);
  }
  void finish() const {
    const NoGrad no_grad;
    const bool feedback = state_->options.error_feedback;
    for (const Part& part : parts_) {
      const Array mean = flat(bucket_.buffer, part);
      if (part.r == 0) {
        copy_into(first_.slice(0, part.p, part.p + part.m), mean);
        if (feedback)
          core::backend(values_.device()).run(core::call::Fill{flat(values_, part), 0.0});
        continue;
      }
      const Tensor q = q_of(part);
      copy_into(matmul(p_of(part), q.transpose(0, 1)).array().reshape({mean.numel()}), mean);
      if (state_->options.warm_start) state_->factors[part.name] = q.array().clone();
      if (!feedback) continue;
      const Array error = flat(values_, part);
      core::map_into<k::Sub>(error, error, mean);
      core::map_into<k::Where>(error, core::map<k::IsFinite>(error), error, Scalar(0.0));
    }
  }

 private:
  // A parameter: a matrix [m, k] with factors of r columns, or m elements that travel whole.
  struct Part {
    std::string name;
    int64_t begin, m, k, r;
    int64_t p, q;  // where in first_ and second_ its factors begin
  };

  void place() {
    const PowerSGDOptions& o = state_->options;
    for (const BucketParameter& parameter : bucket_.parameters) {
      const int64_t n = parameter.shape.numel();
      const int64_t m = parameter.shape.size() > 1 ? parameter.shape[0] : 0;
      const int64_t columns = m > 0 ? n / m : 0;
      const int64_t r = std::min({o.rank, m, columns});
      const auto factors = static_cast<double>(r * (m + columns));
      const bool worth = r > 0 && static_cast<double>(n) >= o.min_compression_rate * factors;
      parts_.push_back({parameter.name, parameter.begin, worth ? m : n, worth ? columns : 0,
                        worth ? r : 0, 0, 0});
      vectors_ += worth ? 0 : n;
    }
    int64_t whole = 0;
    for (Part& part : parts_) {
      if (part.r == 0) {
        part.p = std::exchange(whole, whole + part.m);
        continue;
      }
      part.p = vectors_ + std::exchange(of_p_, of_p_ + part.m * part.r);
      part.q = std::exchange(of_q_, of_q_ + part.k * part.r);
    }
  }

  static Array flat(const Array& values, const Part& part) {
    return values.slice(0, part.begin, part.begin + part.m * std::max<int64_t>(part.k, 1));
  }
  static Tensor matrix(const Array& values, const Part& part) {
    return Tensor(flat(values, part).reshape({part.m, part.k}));
  }
  Tensor p_of(const Part& part) const {
    return Tensor(first_.slice(0, part.p, part.p + part.m * part.r).reshape({part.m, part.r}));
  }
  Tensor q_of(const Part& part) const {
    return Tensor(second_.slice(0, part.q, part.q + part.k * part.r).reshape({part.k, part.r}));
  }

  GradBucket bucket_;
  std::shared_ptr<PowerSGDHook::State> state_;
  std::vector<Part> parts_;
  int64_t vectors_ = 0, of_p_ = 0, of_q_ = 0;  // elements
  Array values_;                               // gradients and errors
  Array first_;                                // what travels whole, then the factors P
  Array second_;                               // the factors Q
};

}  // namespace

Array PowerSGDHook::State::first_factor(const std::string& name, const Shape& shape,
                                        Device device) const {
  const RandomStream stream = named_stream(options.seed, name);
  const Array q = Array::empty(shape, kFloat32, device);
  core::backend(device).run(core::call::Random{
      {.kind = core::RandomFill::Kind::normal, .seed = stream.key, .stream = stream.id}, 0, q});
  return q;
}

// Zeros and what is not finite would stay so in every step to come.
Array PowerSGDHook::State::factor(const std::string& name, const Shape& shape,
                                  Device device) const {
  const Array first = first_factor(name, shape, device);
  const auto found = factors.find(name);
  if (found == factors.end()) return first;
  const Tensor q(found->second);
  const Tensor usable = logical_and(Tensor(core::map<k::IsFinite>(q.array())), q != 0.0);
  return where(usable, q, Tensor(first)).array();
}

PowerSGDHook::PowerSGDHook(const PowerSGDOptions& options)
    : state_(std::make_shared<State>(State{options, {}, {}})) {
  check(options.rank > 0, "power_sgd: rank must be positive: ", options.rank);
  check(options.min_compression_rate > 0.0,
        "power_sgd: min_compression_rate must be positive: ", options.min_compression_rate);
}

PowerSGDHook::operator CommHook() const {
  const PowerSGDOptions& o = state_->options;
  return {"power_sgd of rank " + std::to_string(o.rank) + ", rate " +
              std::to_string(o.min_compression_rate) + ", seed " + std::to_string(o.seed) +
              (o.error_feedback ? "" : ", without error feedback") + (o.warm_start ? "" : ", cold"),
          [state = state_](const GradBucket& bucket) {
            check(bucket.buffer.dtype() == kFloat32, "power_sgd: bucket ", bucket.index, " of '",
                  bucket.parameters.front().name, "' is ", bucket.buffer.dtype(),
                  "; it takes float32");
            const auto exchange = std::make_shared<PowerExchange>(bucket, state);
            return Future(exchange->reduce_p())
                .then([exchange] { return exchange->reduce_q(); })
                .then([exchange] { exchange->finish(); });
          }};
}

optim::StateDict PowerSGDHook::rank_state_dict() const {
  optim::StateDict dict = state_->errors.state_dict();
  for (const auto& [name, factor] : state_->factors) {
    dict.push_back({std::string(kFactorKey) + name, factor.clone()});
  }
  return dict;
}

void PowerSGDHook::load_rank_state_dict(const optim::StateDict& dict) {
  optim::StateDict errors;
  std::map<std::string, Array> factors;
  for (const auto& [name, array] : dict) {
    if (!name.starts_with(kFactorKey)) {
      errors.push_back({name, array});
      continue;
    }
    check(array.dtype() == kFloat32 && array.ndim() == 2, "power_sgd: '", name, "' is ",
          array.dtype(), " ", array.shape(), ", not a float32 matrix");
    factors[name.substr(kFactorKey.size())] = array.clone();
  }
  state_->errors.load_state_dict("power_sgd", errors);
  state_->factors = std::move(factors);
}

void PowerSGDHook::reset_rank_state() {
  state_->errors.reset();
  state_->factors.clear();
}

}  // namespace hero::dist

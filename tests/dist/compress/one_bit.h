#pragma once
// What the optimizers that send bits must do, once more: N workers in one process, in plain loops
// over floats.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/one_bit.h>
#include <hero/optim/accumulator.h>

namespace hero::test {

using Floats = std::vector<float>;

inline float single(double x) { return static_cast<float>(x); }

/// The sign bits of a row and their scale, as what they stand for.
inline Floats signs_of(const float* x, int64_t n) {
  long double squares = 0.0L;
  for (int64_t i = 0; i < n; ++i) squares += static_cast<long double>(x[i]) * x[i];
  const double root = static_cast<double>(std::sqrt(squares));
  const auto scale = static_cast<float>(n > 0 ? root / std::sqrt(static_cast<double>(n)) : 0.0);
  Floats values;
  for (int64_t i = 0; i < n; ++i) values.push_back(std::signbit(x[i]) ? -scale : scale);
  return values;
}

/// The mean in bits of N workers' arrays, with the errors of all of them.
class OneBitSimulation {
 public:
  OneBitSimulation(size_t workers, size_t elements, int64_t bucket_elements)
      : bucket_(bucket_elements),
        worker_(workers, Floats(elements, 0.0f)),
        server_(elements, 0.0f) {}

  Floats mean(const std::vector<Floats>& xs) {
    const auto n = static_cast<int64_t>(server_.size());
    Floats out(server_.size());
    for (int64_t begin = 0; begin < n; begin += bucket_) {
      const int64_t count = std::min(bucket_, n - begin);
      const int64_t row = row_of(count);
      for (int64_t at = 0; at < count; at += row) {
        mean_of_row(xs, begin + at, std::min(row, count - at), out);
      }
    }
    return out;
  }
  /// Elements of a row of a bucket.
  int64_t row_of(int64_t count) const {
    const auto workers = static_cast<int64_t>(worker_.size());
    return std::max<int64_t>(((count + workers - 1) / workers + 31) / 32, 1) * 32;
  }
  /// Bytes that each worker sends.
  int64_t bytes() const {
    const auto n = static_cast<int64_t>(server_.size()),
               others = static_cast<int64_t>(worker_.size()) - 1;
    int64_t sent = 0;
    for (int64_t begin = 0; begin < n; begin += bucket_) {
      sent += 2 * others * (4 + row_of(std::min(bucket_, n - begin)) / 8);
    }
    return sent;
  }
  void reset() {
    for (Floats& error : worker_) std::fill(error.begin(), error.end(), 0.0f);
    std::fill(server_.begin(), server_.end(), 0.0f);
  }

 private:
  void mean_of_row(const std::vector<Floats>& xs, int64_t begin, int64_t count, Floats& out) {
    const auto first = static_cast<size_t>(begin), n = static_cast<size_t>(count);
    Floats sum(n);
    for (size_t w = 0; w < xs.size(); ++w) {
      Floats c(n);
      for (size_t i = 0; i < n; ++i) c[i] = worker_[w][first + i] + xs[w][first + i];
      const Floats values = signs_of(c.data(), count);
      for (size_t i = 0; i < n; ++i) {
        sum[i] = w == 0 ? values[i] : sum[i] + values[i];
        worker_[w][first + i] = c[i] - values[i];
      }
    }
    Floats c(n);
    for (size_t i = 0; i < n; ++i) {
      c[i] = server_[first + i] + sum[i] / static_cast<float>(xs.size());
    }
    const Floats values = signs_of(c.data(), count);
    for (size_t i = 0; i < n; ++i) {
      out[first + i] = values[i];
      server_[first + i] = c[i] - values[i];
    }
  }

  int64_t bucket_;
  std::vector<Floats> worker_;
  Floats server_;
};

/// All values of a list of arrays, one behind the other.
inline Floats flat_of(const std::vector<Array>& arrays) {
  Floats all;
  for (const Array& x : arrays) {
    const Floats values =
        x.to(kCpu).to(kFloat32).contiguous().reshape({x.numel()}).to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}
inline Floats flat_of(const std::vector<Tensor>& tensors) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : tensors) arrays.push_back(tensor.array());
  return flat_of(arrays);
}
/// The reverse, into parameters.
inline void write_flat(const Floats& values, const std::vector<Tensor>& parameters) {
  const NoGrad no_grad;
  auto from = values.begin();
  for (const Tensor& p : parameters) {
    const Floats own(from, from + p.numel());
    p.copy_(Tensor(Array::from(own, p.shape()).to(p.device())));
    from += p.numel();
  }
}
/// The gradients of one worker, zeros where there are none.
inline Floats gradient_of(Subject subject, nn::Module& model, int step, int worker) {
  for (const Tensor& p : model.parameters()) p.set_grad({});
  subject_loss(subject, model, step, worker).backward();
  std::vector<Array> gradients;
  for (const Tensor& p : model.parameters()) {
    gradients.push_back(p.grad().defined() ? p.grad().array() : Array::zeros(p.shape()));
    p.set_grad({});
  }
  return flat_of(gradients);
}
/// The mean of the workers' gradients as DDP makes it, in the parameters.
inline void average_gradients(const std::vector<Tensor>& parameters, Subject subject,
                              nn::Module& model, int step, int workers) {
  optim::Accumulator gradients(parameters);
  for (int w = 0; w < workers; ++w) {
    subject_loss(subject, model, step, w).backward();
    gradients.add();
  }
  gradients.mean();
}
/// The states of that name of all parameters.
inline Floats states_of(const optim::Optimizer& optimizer, const std::string& name) {
  std::vector<Array> arrays;
  const optim::StateDict dict = optimizer.state_dict();
  for (size_t i = 0; i < optimizer.parameters().size(); ++i) {
    const std::string key = "state." + std::to_string(i) + "." + name;
    for (const auto& entry : dict) {
      if (entry.name == key) arrays.push_back(entry.array);
    }
  }
  return flat_of(arrays);
}

inline const dist::OneBitAdamOptions kOneBitAdam = {
    .lr = 0.01, .weight_decay = 0.1, .freeze_step = 3, .bucket_elements = 128};

/// The parameters of a run of 1-bit Adam after each step, by one process.
inline std::vector<Floats> simulate_one_bit_adam(Subject subject, int workers, int steps,
                                                 Device device = kCpu) {
  const dist::OneBitAdamOptions& o = kOneBitAdam;
  const auto model = make_subject(subject);
  model->to(device);
  const std::vector<Tensor> parameters = model->parameters();
  optim::AdamW adamw(parameters,
                     {.lr = o.lr, .betas = o.betas, .eps = o.eps, .weight_decay = o.weight_decay});
  const auto n = static_cast<size_t>(flat_of(parameters).size());
  OneBitSimulation bits(static_cast<size_t>(workers), n, o.bucket_elements);
  std::vector<Floats> after;
  Floats m, v;
  for (int step = 0; step < steps; ++step) {
    if (step < o.freeze_step) {
      average_gradients(parameters, subject, *model, step, workers);
      adamw.step();
      adamw.zero_grad();
      m = states_of(adamw, "exp_avg");
      v = states_of(adamw, "exp_avg_sq");
    } else {
      std::vector<Floats> momenta;
      const float weight = single(1.0 - o.betas[0]);
      for (int w = 0; w < workers; ++w) {
        Floats c = gradient_of(subject, *model, step, w);
        for (size_t i = 0; i < n; ++i) c[i] = m[i] + weight * (c[i] - m[i]);
        momenta.push_back(std::move(c));
      }
      m = bits.mean(momenta);
      const double warm = static_cast<double>(o.freeze_step), t = step + 1;
      const float keep = single(1.0 - o.lr * o.weight_decay);
      const float lr = single(o.lr / (1.0 - std::pow(o.betas[0], t)));
      const float root = single(std::sqrt(1.0 - std::pow(o.betas[1], warm)));
      const float eps = single(o.eps);
      Floats p = flat_of(parameters);
      for (size_t i = 0; i < n; ++i) {
        if (!(v[i] > 0.0f)) m[i] = 0.0f;
        p[i] = p[i] * keep - lr * m[i] / (std::sqrt(v[i]) / root + eps);
      }
      write_flat(p, parameters);
    }
    after.push_back(flat_of(parameters));
  }
  return after;
}

/// One rank's part of such a run: calls `seen` with the parameters and the bytes that the rank sent
/// after each step.
inline void train_one_bit_adam(
    const dist::Communicator& world, Subject subject, int steps,
    const std::function<void(int step, const Floats& parameters, int64_t sent,
                             dist::OneBitAdam& adam)>& seen,
    Device device = kCpu) {
  const auto model = make_subject(subject);
  model->to(device);
  const dist::DDP ddp(*model, world, {.bucket_bytes = 700, .first_bucket_bytes = 100});
  dist::OneBitAdam adam(ddp, model->parameters(), kOneBitAdam);
  for (int step = 0; step < steps; ++step) {
    const int64_t before = world.traffic().bytes();
    subject_loss(subject, *model, step, world.rank()).backward();
    adam.step();
    adam.zero_grad();
    seen(step, flat_of(model->parameters()), world.traffic().bytes() - before, adam);
  }
}

/// "" where these are the same bits.
inline std::string unlike(const Floats& got, const Floats& expected) {
  if (got.size() != expected.size()) return "other numbers of elements";
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(got[i]) + " instead of " +
           std::to_string(expected[i]);
  }
  return "";
}

/// A perceptron under DDP with an optimizer O that sends bits, and checkpoints of both.
template <class O>
struct TrackedBits {
  template <class Options>
  TrackedBits(const dist::Communicator& ranks, const Options& options, const std::string& run)
      : world(ranks),
        model(make_subject(Subject::mlp)),
        ddp(*model, ranks),
        optimizer(ddp, model->parameters(), options),
        checkpoint(run, ranks) {
    checkpoint.track("model", *model);
    checkpoint.track("optimizer", optimizer);
  }

  void train(int from, int to) {
    for (int step = from; step < to; ++step) {
      subject_loss(Subject::mlp, *model, step, world.rank()).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  /// Puts this rank's parameters among those of all.
  void end(std::vector<Floats>& ends) const {
    ends[static_cast<size_t>(world.rank())] = flat_of(model->parameters());
  }

  const dist::Communicator& world;
  std::unique_ptr<nn::Module> model;
  dist::DDP ddp;
  O optimizer;
  dist::Checkpointer checkpoint;
};

}  // namespace hero::test

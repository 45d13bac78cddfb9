#pragma once
// 0/1 Adam once more: N workers in one process, in plain loops over floats.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "dist/compress/one_bit.h"

namespace hero::test {

inline const dist::ZeroOneAdamOptions kZeroOneAdam = {.lr = 0.01,
                                                      .weight_decay = 0.1,
                                                      .var_freeze_step = 7,
                                                      .var_update_scaler = 2,
                                                      .local_step_scaler = 2,
                                                      .local_step_clipper = 4,
                                                      .bucket_elements = 128};

/// The parameters of each worker after each step, and what each step was: v for the variance, b for
/// bits, l for local, followed by m where its sum was exchanged.
struct ZeroOneRun {
  std::vector<std::vector<Floats>> after;
  std::string kinds;
};

/// A run of 0/1 Adam by one process.
inline ZeroOneRun simulate_zero_one_adam(int workers, int steps) {
  const dist::ZeroOneAdamOptions& o = kZeroOneAdam;
  const auto model = make_subject(Subject::mlp);
  const std::vector<Tensor> parameters = model->parameters();
  const size_t n = flat_of(parameters).size(), count = static_cast<size_t>(workers);
  OneBitSimulation bits(count, n, o.bucket_elements);
  std::vector<Floats> p(count, flat_of(parameters)), m(count, Floats(n, 0.0f)), u(count);
  Floats v(n, 0.0f), at_mean;
  ZeroOneRun run;
  const float weight = single(1.0 - o.betas[0]), keep = single(1.0 - o.lr * o.weight_decay);
  int64_t interval = 1, counter = 0, updates = 0, local_interval = 1, local_counter = 0, local = 0;
  double rates = 0.0, keeps = 1.0;
  const auto move = [&](size_t w, float kept, double rate) {
    const float root = single(std::sqrt(1.0 - std::pow(o.betas[1], static_cast<double>(updates))));
    for (size_t i = 0; i < n; ++i) {
      if (!(v[i] > 0.0f)) m[w][i] = 0.0f;
      p[w][i] = p[w][i] * kept - single(rate) * m[w][i] / (std::sqrt(v[i]) / root + single(o.eps));
    }
  };
  const auto gradient = [&](size_t w, int step) {
    write_flat(p[w], parameters);
    return gradient_of(Subject::mlp, *model, step, static_cast<int>(w));
  };
  for (int step = 0; step < steps; ++step) {
    const int64_t t = step + 1;
    const double rate = o.lr / (1.0 - std::pow(o.betas[0], static_cast<double>(t)));
    if (t <= o.var_freeze_step && t % interval == 0) {
      run.kinds += 'v';
      ++updates;
      write_flat(p[0], parameters);
      for (const Tensor& each : parameters) each.set_grad({});
      average_gradients(parameters, Subject::mlp, *model, step, workers);
      std::vector<Tensor> gradients;
      for (const Tensor& each : parameters) gradients.push_back(each.grad());
      const Floats g = flat_of(gradients);
      const float rest2 = single(1.0 - o.betas[1]);
      for (size_t i = 0; i < n; ++i) v[i] = single(o.betas[1]) * v[i] + rest2 * (g[i] * g[i]);
      const float root =
          single(std::sqrt(1.0 - std::pow(o.betas[1], static_cast<double>(updates))));
      for (size_t w = 0; w < count; ++w) {
        for (size_t i = 0; i < n; ++i) {
          m[w][i] = single(o.betas[0]) * m[w][i] + weight * g[i];
          p[w][i] =
              p[w][i] * keep - single(rate) * m[w][i] / (std::sqrt(v[i]) / root + single(o.eps));
        }
      }
      if (++counter == o.var_update_scaler) counter = 0, interval *= 2;
    } else if (t <= o.var_freeze_step) {
      run.kinds += 'b';
      std::vector<Floats> gradients;
      for (size_t w = 0; w < count; ++w) gradients.push_back(gradient(w, step));
      const Floats g = bits.mean(gradients);
      for (size_t w = 0; w < count; ++w) {
        for (size_t i = 0; i < n; ++i) m[w][i] = m[w][i] + weight * (g[i] - m[w][i]);
        move(w, keep, rate);
      }
    } else {
      run.kinds += 'l';
      if (local == 0) {
        at_mean = p[0];
        u.assign(count, Floats(n, 0.0f));
        rates = 0.0, keeps = 1.0;
      }
      rates += rate;
      keeps *= 1.0 - o.lr * o.weight_decay;
      for (size_t w = 0; w < count; ++w) {
        const Floats g = gradient(w, step);
        for (size_t i = 0; i < n; ++i) m[w][i] = m[w][i] + weight * (g[i] - m[w][i]);
        move(w, keep, rate);
        for (size_t i = 0; i < n; ++i) u[w][i] = m[w][i] * single(rate) + u[w][i];
      }
      const bool due = ++local >= local_interval;
      if (++local_counter == o.local_step_scaler) {
        local_counter = 0;
        local_interval = std::min(local_interval * 2, o.local_step_clipper);
      }
      if (due) {
        run.kinds += 'm';
        const Floats mean = bits.mean(u);
        for (size_t w = 0; w < count; ++w) {
          for (size_t i = 0; i < n; ++i) m[w][i] = mean[i] / single(rates);
          p[w] = at_mean;
          move(w, single(keeps), rates);
        }
        local = 0;
      }
    }
    if (t == o.var_freeze_step) bits.reset();
    run.after.push_back(p);
  }
  return run;
}

/// One rank's part of such a run: calls `seen` after each step with its kind as above, the
/// parameters and the bytes that the rank sent.
inline void train_zero_one_adam(
    const dist::Communicator& world, int steps,
    const std::function<void(int step, const std::string& kind, const Floats& parameters,
                             int64_t sent)>& seen) {
  using Kind = dist::ZeroOneAdam::Kind;
  const auto model = make_subject(Subject::mlp);
  const dist::DDP ddp(*model, world);
  dist::ZeroOneAdam adam(ddp, model->parameters(), kZeroOneAdam);
  for (int step = 0; step < steps; ++step) {
    const Kind kind = adam.next_step();
    const int64_t before = world.traffic().bytes();
    subject_loss(Subject::mlp, *model, step, world.rank()).backward();
    adam.step();
    adam.zero_grad();
    std::string text(1, "vbl"[static_cast<int>(kind)]);
    if (kind == Kind::local && adam.synchronized()) text += 'm';
    seen(step, text, flat_of(model->parameters()), world.traffic().bytes() - before);
  }
}

}  // namespace hero::test

#pragma once
// 1-bit LAMB once more: N workers in one process, in plain loops over floats.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "dist/compress/one_bit.h"

#include <hero/optim/lamb.h>

namespace hero::test {

inline std::vector<size_t> sizes_of(const std::vector<Tensor>& parameters) {
  std::vector<size_t> sizes;
  for (const Tensor& p : parameters) sizes.push_back(static_cast<size_t>(p.numel()));
  return sizes;
}

inline double norm_of(const float* x, size_t n) {
  long double squares = 0.0L;
  for (size_t i = 0; i < n; ++i) squares += static_cast<long double>(x[i]) * x[i];
  return static_cast<double>(std::sqrt(squares));
}

inline const dist::OneBitLAMBOptions kOneBitLAMB = {.lr = 0.01,
                                                    .weight_decay = 0.1,
                                                    .freeze_step = 3,
                                                    .bucket_elements = 128,
                                                    .max_coeff = 1e6,
                                                    .min_coeff = 1e-6};

/// What 1-bit LAMB keeps of each parameter beside arrays.
struct LambNumbers {
  double average = 0.0, seen = 0.0, scale = 0.0, factor = 1.0;
};

/// One parameter's frozen step.
inline void lamb_step(const dist::OneBitLAMBOptions& o, double t, LambNumbers& numbers, size_t n,
                      float* p, const float* m, const float* before, const float* v, float* fresh) {
  const double root = std::sqrt(1.0 - std::pow(o.betas[1], static_cast<double>(o.freeze_step)));
  const double now = std::sqrt(1.0 - std::pow(o.betas[1], t));
  Floats plain(n), direction(n);
  float most = 0.0f;
  for (size_t i = 0; i < n; ++i) {
    const float g = (m[i] - before[i] * single(o.betas[0])) / single(1.0 - o.betas[0]);
    fresh[i] = fresh[i] * single(o.betas[1]) + g * g * single(1.0 - o.betas[1]);
    const float denominator = std::sqrt(v[i]) / single(root) + single(o.eps);
    plain[i] = m[i] / single(1.0 - std::pow(o.betas[0], t)) / denominator;
    direction[i] = plain[i] + p[i] * single(o.weight_decay);
    most = std::max(most, denominator / (std::sqrt(fresh[i]) / single(now) + single(o.eps)));
  }
  const double length = norm_of(direction.data(), n);
  const double share = std::min(1.0, norm_of(plain.data(), n) / length);
  const double factor =
      std::clamp(static_cast<double>(most) * share + (1.0 - share), o.factor_min, o.factor_max);
  numbers.factor = std::clamp(factor, numbers.factor * (1.0 - o.factor_threshold),
                              numbers.factor * (1.0 + o.factor_threshold));
  const double c = numbers.average / (1.0 - std::pow(o.coeff_beta, numbers.seen));
  for (size_t i = 0; i < n; ++i) p[i] = p[i] - direction[i] * single(o.lr * c * numbers.factor);
}

/// The parameters of a run of 1-bit LAMB after each step, by one process.
inline std::vector<Floats> simulate_one_bit_lamb(int workers, int steps) {
  const dist::OneBitLAMBOptions& o = kOneBitLAMB;
  const auto model = make_subject(Subject::mlp);
  const std::vector<Tensor> parameters = model->parameters();
  const std::vector<size_t> sizes = sizes_of(parameters);
  optim::LAMB lamb(parameters,
                   {.lr = o.lr, .betas = o.betas, .eps = o.eps, .weight_decay = o.weight_decay});
  const size_t n = flat_of(parameters).size();
  OneBitSimulation bits(static_cast<size_t>(workers), n, o.bucket_elements);
  std::vector<LambNumbers> numbers(sizes.size());
  std::vector<Floats> after;
  Floats m, v, fresh;
  for (int step = 0; step < steps; ++step) {
    const double t = step + 1;
    if (step < o.freeze_step) {
      const Floats p = flat_of(parameters);
      average_gradients(parameters, Subject::mlp, *model, step, workers);
      lamb.step();
      lamb.zero_grad();
      m = states_of(lamb, "exp_avg");
      v = fresh = states_of(lamb, "exp_avg_sq");
      for (size_t i = 0, at = 0; i < sizes.size(); at += sizes[i++]) {
        Floats d(sizes[i]);
        for (size_t j = 0; j < sizes[i]; ++j) {
          d[j] =
              m[at + j] / single(1.0 - std::pow(o.betas[0], t)) /
                  (std::sqrt(v[at + j] / single(1.0 - std::pow(o.betas[1], t))) + single(o.eps)) +
              single(o.weight_decay) * p[at + j];
        }
        const double c = norm_of(p.data() + at, sizes[i]) / norm_of(d.data(), sizes[i]);
        numbers[i].average = o.coeff_beta * numbers[i].average + (1.0 - o.coeff_beta) * c;
        numbers[i].seen += 1.0;
      }
    } else {
      if (step == o.freeze_step) {
        std::vector<double> roots;
        double all = 0.0;
        for (size_t i = 0, at = 0; i < sizes.size(); at += sizes[i++]) {
          roots.push_back(norm_of(m.data() + at, sizes[i]) /
                          std::sqrt(static_cast<double>(sizes[i])));
          all += roots.back();
        }
        for (size_t i = 0; i < sizes.size(); ++i) {
          numbers[i].scale = all / static_cast<double>(sizes.size()) / roots[i];
        }
      }
      std::vector<Floats> momenta;
      for (int w = 0; w < workers; ++w) {
        Floats c = gradient_of(Subject::mlp, *model, step, w);
        for (size_t i = 0, at = 0; i < sizes.size(); at += sizes[i++]) {
          for (size_t j = at; j < at + sizes[i]; ++j) {
            c[j] = (m[j] + single(1.0 - o.betas[0]) * (c[j] - m[j])) * single(numbers[i].scale);
          }
        }
        momenta.push_back(std::move(c));
      }
      const Floats before = std::exchange(m, bits.mean(momenta));
      Floats p = flat_of(parameters);
      for (size_t i = 0, at = 0; i < sizes.size(); at += sizes[i++]) {
        for (size_t j = at; j < at + sizes[i]; ++j) {
          m[j] = v[j] > 0.0f ? m[j] / single(numbers[i].scale) : 0.0f;
        }
        lamb_step(o, t, numbers[i], sizes[i], p.data() + at, m.data() + at, before.data() + at,
                  v.data() + at, fresh.data() + at);
      }
      write_flat(p, parameters);
    }
    after.push_back(flat_of(parameters));
  }
  return after;
}

/// One rank's part of such a run: calls `seen` with the parameters and the bytes that the rank sent
/// after each step.
inline void train_one_bit_lamb(
    const dist::Communicator& world, int steps,
    const std::function<void(int step, const Floats& parameters, int64_t sent,
                             dist::OneBitLAMB& lamb)>& seen) {
  const auto model = make_subject(Subject::mlp);
  const dist::DDP ddp(*model, world);
  dist::OneBitLAMB lamb(ddp, model->parameters(), kOneBitLAMB);
  for (int step = 0; step < steps; ++step) {
    const int64_t before = world.traffic().bytes();
    subject_loss(Subject::mlp, *model, step, world.rank()).backward();
    lamb.step();
    lamb.zero_grad();
    seen(step, flat_of(model->parameters()), world.traffic().bytes() - before, lamb);
  }
}

}  // namespace hero::test

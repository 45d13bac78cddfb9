#pragma once
// PowerSGD once more: N workers in one process, with the products in plain loops over floats.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dist/compress/one_bit.h"

#include <hero/autograd/ops.h>
#include <hero/core/device/backend.h>
#include <hero/core/random.h>
#include <hero/dist/ddp_comm_hooks.h>

namespace hero::test {

/// A matrix in rows, and its number of columns.
struct PowerMatrix {
  Floats values;
  size_t columns;

  size_t rows() const { return values.size() / columns; }
  float& at(size_t row, size_t column) { return values[row * columns + column]; }
  float at(size_t row, size_t column) const { return values[row * columns + column]; }
  PowerMatrix transposed() const {
    PowerMatrix out{Floats(values.size()), rows()};
    for (size_t i = 0; i < rows(); ++i) {
      for (size_t j = 0; j < columns; ++j) out.at(j, i) = at(i, j);
    }
    return out;
  }
};

inline PowerMatrix product(const PowerMatrix& a, const PowerMatrix& b) {
  PowerMatrix out{Floats(a.rows() * b.columns, 0.0f), b.columns};
  for (size_t i = 0; i < a.rows(); ++i) {
    for (size_t j = 0; j < b.columns; ++j) {
      for (size_t k = 0; k < a.columns; ++k) {
        out.at(i, j) = std::fma(a.at(i, k), b.at(k, j), out.at(i, j));
      }
    }
  }
  return out;
}

/// Of at most four workers, in the order of a tree: (0 + 1) + (2 + 3).
inline Floats mean_in_tree(const std::vector<Floats>& xs) {
  Floats out(xs[0].size());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto pair = [&](size_t w) {
      return w + 1 < xs.size() ? xs[w][i] + xs[w + 1][i] : xs[w][i];
    };
    out[i] = (xs.size() > 2 ? pair(0) + pair(2) : pair(0)) / static_cast<float>(xs.size());
  }
  return out;
}

/// Makes the columns orthonormal, each twice.
inline void orthonormalise_columns(PowerMatrix& p) {
  const auto column_of = [&](size_t c) {
    Floats column;
    for (size_t i = 0; i < p.rows(); ++i) column.push_back(p.at(i, c));
    return Tensor(Array::from(column, {static_cast<int64_t>(column.size())}));
  };
  for (size_t c = 0; c < p.columns; ++c) {
    Tensor column = column_of(c);
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t before = 0; before < c; ++before) {
        const Tensor other = column_of(before);
        column = column - sum(column * other) * other;
      }
      const double length = norm(column).item<double>();
      if (length > 0.0) column = column / length;
    }
    for (size_t i = 0; i < p.rows(); ++i) p.at(i, c) = column.array().data<float>()[i];
  }
}

/// The factors of N workers, who all hold the same ones.
class PowerSimulation {
 public:
  explicit PowerSimulation(const dist::PowerSGDOptions& options) : options_(options) {}

  /// What stands for the mean of the workers' matrices of that name, in rows.
  Floats mean(const std::string& name, const Shape& shape, const std::vector<Floats>& own) {
    const auto columns = static_cast<size_t>(shape[1]);
    PowerMatrix& q = factor(name, shape);
    std::vector<Floats> ps, qs;
    for (const Floats& x : own) ps.push_back(product({x, columns}, q).values);
    PowerMatrix p{mean_in_tree(ps), q.columns};
    orthonormalise_columns(p);
    for (const Floats& x : own) {
      qs.push_back(product(PowerMatrix{x, columns}.transposed(), p).values);
    }
    q.values = mean_in_tree(qs);
    return product(p, q.transposed()).values;
  }

 private:
  // The last step's, with first values in place of zeros, which would stay zeros.
  PowerMatrix& factor(const std::string& name, const Shape& shape) {
    const int64_t rank = std::min({options_.rank, shape[0], shape[1]});
    const RandomStream stream = named_stream(options_.seed, name);
    const Array q = Array::empty({shape[1], rank}, kFloat32);
    core::backend(kCpu).run(core::call::Random{
        {.kind = core::RandomFill::Kind::normal, .seed = stream.key, .stream = stream.id}, 0, q});
    const Floats first = flat_of({q});
    PowerMatrix& last =
        factors_.try_emplace(name, PowerMatrix{first, static_cast<size_t>(rank)}).first->second;
    for (size_t i = 0; i < first.size(); ++i) {
      if (last.values[i] == 0.0f) last.values[i] = first[i];
    }
    return last;
  }

  dist::PowerSGDOptions options_;
  std::map<std::string, PowerMatrix> factors_;
};

/// The gradients of a run's steps by PowerSGD with error feedback, without optimizer steps in
/// between.
inline std::vector<Floats> simulate_power_sgd(const dist::PowerSGDOptions& options, int workers,
                                              int steps) {
  const auto model = make_subject(Subject::mlp);
  PowerSimulation simulation(options);
  std::vector<Floats> errors(static_cast<size_t>(workers)), all;
  for (int step = 0; step < steps; ++step) {
    for (size_t w = 0; w < errors.size(); ++w) {
      const Floats g = gradient_of(Subject::mlp, *model, step, static_cast<int>(w));
      errors[w].resize(g.size());
      for (size_t i = 0; i < g.size(); ++i) errors[w][i] += g[i];
    }
    Floats sent;
    for (const auto& [name, p] : model->named_parameters()) {
      const auto begin = static_cast<std::ptrdiff_t>(sent.size()), end = begin + p.numel();
      std::vector<Floats> own;
      for (const Floats& error : errors)
        own.emplace_back(error.begin() + begin, error.begin() + end);
      const bool whole = p.ndim() < 2;
      const Floats mean = whole ? mean_in_tree(own) : simulation.mean(name, p.shape(), own);
      for (Floats& error : errors) {
        for (size_t i = 0; i < mean.size(); ++i) {
          float& left = error[sent.size() + i];
          left = whole ? 0.0f : left - mean[i];
        }
      }
      sent.insert(sent.end(), mean.begin(), mean.end());
    }
    all.push_back(sent);
  }
  return all;
}

/// The gradients of some steps by a hook, without optimizer steps in between; null: without a hook.
inline std::vector<Floats> gradients_by(const dist::Communicator& world, const dist::CommHook* hook,
                                        Subject subject, int steps) {
  const auto model = make_subject(subject);
  const dist::DDP ddp(*model, world, {.bucket_bytes = 600, .first_bucket_bytes = 100});
  if (hook) ddp.register_comm_hook(*hook);
  std::vector<Floats> all;
  for (int step = 0; step < steps; ++step) {
    for (const Tensor& p : model->parameters()) p.set_grad({});
    subject_loss(subject, *model, step, world.rank()).backward();
    std::vector<Array> gradients;
    for (const Tensor& p : model->parameters()) {
      if (p.requires_grad()) gradients.push_back(p.grad().array());
    }
    all.push_back(flat_of(gradients));
  }
  return all;
}

}  // namespace hero::test

// What an operation costs beside its arithmetic: one-element tensors. "ns/op" is the median over
// batches and "ns/op_best" the quickest batch.
#include "bench/measure.h"

#include <hero/autograd/autograd.h>

namespace {

using hero::Tensor;
using hero::tensor;

constexpr int kBatch = 1000;

// Times batches of kBatch calls of `op`, each call counting as `ops` operations.
template <class Op>
void run_batches(benchmark::State& state, int ops, const Op& op) {
  std::vector<double> batches;
  for (auto _ : state) {
    batches.push_back(bench::seconds([&] {
      for (int i = 0; i < kBatch; ++i) op();
    }));
    state.SetIterationTime(batches.back());
  }
  const double each = 1e9 / (static_cast<double>(kBatch) * ops);
  state.counters["ns/op"] = bench::median(batches) * each;
  state.counters["ns/op_best"] = *std::min_element(batches.begin(), batches.end()) * each;
}

void no_grad_mul(benchmark::State& state) {
  const hero::NoGrad no_grad;
  const Tensor p = tensor({1.5}), q = tensor({2.5});
  Tensor r;
  run_batches(state, 1, [&] { r = p * q; });
}

void no_grad_mul_scalar(benchmark::State& state) {
  const hero::NoGrad no_grad;
  const Tensor p = tensor({1.5});
  Tensor r;
  run_batches(state, 1, [&] { r = p * 2.5; });
}

void no_grad_exp(benchmark::State& state) {
  const hero::NoGrad no_grad;
  const Tensor p = tensor({1.5});
  Tensor r;
  run_batches(state, 1, [&] { r = exp(p); });
}

void plain_mul(benchmark::State& state) {
  const Tensor p = tensor({1.5}), q = tensor({2.5});
  Tensor r;
  run_batches(state, 1, [&] { r = p * q; });
}

void recording_mul(benchmark::State& state) {
  const Tensor p = tensor({1.5}, {.requires_grad = true}), q = tensor({2.5});
  Tensor r;
  run_batches(state, 1, [&] { r = p * q; });
}

void recording_mul_both(benchmark::State& state) {
  const Tensor p = tensor({1.5}, {.requires_grad = true});
  const Tensor q = tensor({2.5}, {.requires_grad = true});
  Tensor r;
  run_batches(state, 1, [&] { r = p * q; });
}

void recording_mul_scalar(benchmark::State& state) {
  const Tensor p = tensor({1.5}, {.requires_grad = true});
  Tensor r;
  run_batches(state, 1, [&] { r = p * 2.5; });
}

constexpr int kChain = 20;

// A chain of kChain operations and its backward pass: the pass's own cost is shared by few.
template <class Op>
void run_chain(benchmark::State& state, const Op& op) {
  const Tensor p = tensor({1.5}, {.requires_grad = true});
  run_batches(state, kChain, [&] {
    Tensor r = p;
    for (int i = 0; i < kChain; ++i) r = op(r);
    r.backward();
  });
}

void chain_mul(benchmark::State& state) {
  const Tensor q = tensor({1.01});
  run_chain(state, [&](const Tensor& r) { return r * q; });
}

void chain_mul_scalar(benchmark::State& state) {
  run_chain(state, [](const Tensor& r) { return r * 1.01; });
}

void chain_add(benchmark::State& state) {
  const Tensor q = tensor({1.01});
  run_chain(state, [&](const Tensor& r) { return r + q; });
}

void chain_tanh(benchmark::State& state) {
  run_chain(state, [](const Tensor& r) { return tanh(r); });
}

}  // namespace

BENCHMARK(no_grad_mul)->UseManualTime();
BENCHMARK(no_grad_mul_scalar)->UseManualTime();
BENCHMARK(no_grad_exp)->UseManualTime();
BENCHMARK(plain_mul)->UseManualTime();
BENCHMARK(recording_mul)->UseManualTime();
BENCHMARK(recording_mul_both)->UseManualTime();
BENCHMARK(recording_mul_scalar)->UseManualTime();
BENCHMARK(chain_mul)->UseManualTime();
BENCHMARK(chain_mul_scalar)->UseManualTime();
BENCHMARK(chain_add)->UseManualTime();
BENCHMARK(chain_tanh)->UseManualTime();

BENCHMARK_MAIN();

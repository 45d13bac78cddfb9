// Factorisations and systems of the library beside Eigen's, where that is installed, at one thread.
#include <string>

#include <benchmark/benchmark.h>

#include <hero/core/functions/linalg.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#if __has_include(<Eigen/Dense>)
#define HERO_HAS_EIGEN
#include <Eigen/Dense>
#endif

namespace {

using hero::Array;

Array numbers(int64_t rows, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return Array::from(values, {rows, columns});
}

Array definite(int64_t n) {
  const Array x = numbers(n, n);
  return hero::core::map<hero::core::kernels::Add>(
      hero::core::matmul(x, x.t()), Array::from(std::vector<float>(n, 1.0f), {n, 1}));
}

template <class Work>
void run(benchmark::State& state, const Work& work) {
  const hero::ThreadLimit limit(1);
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
}

void solve(benchmark::State& state) {
  const Array a = numbers(state.range(0), state.range(0)), b = numbers(state.range(0), 64);
  run(state, [&] { benchmark::DoNotOptimize(hero::core::solve(a, b).storage()); });
}
void cholesky(benchmark::State& state) {
  const Array a = definite(state.range(0));
  run(state, [&] { benchmark::DoNotOptimize(hero::core::cholesky(a).storage()); });
}
void qr(benchmark::State& state) {
  const Array a = numbers(state.range(0), state.range(0));
  run(state, [&] { benchmark::DoNotOptimize(hero::core::qr(a).q.storage()); });
}
void eigh(benchmark::State& state) {
  const Array a = definite(state.range(0));
  run(state, [&] { benchmark::DoNotOptimize(hero::core::eigh(a).values.storage()); });
}
BENCHMARK(solve)->Arg(64)->Arg(256)->Arg(512);
BENCHMARK(cholesky)->Arg(64)->Arg(256)->Arg(512);
BENCHMARK(qr)->Arg(64)->Arg(256)->Arg(512);
BENCHMARK(eigh)->Arg(64)->Arg(256);

#ifdef HERO_HAS_EIGEN
using Matrix = Eigen::MatrixXf;

Matrix of_eigen(const Array& a) {
  const std::vector<float> values = a.to_vector<float>();
  return Eigen::Map<const Matrix>(values.data(), a.size(0), a.size(1));
}

void eigen_solve(benchmark::State& state) {
  const Matrix a = of_eigen(numbers(state.range(0), state.range(0)));
  const Matrix b = of_eigen(numbers(state.range(0), 64));
  Matrix x;
  run(state, [&] { x = a.partialPivLu().solve(b); });
}
void eigen_cholesky(benchmark::State& state) {
  const Matrix a = of_eigen(definite(state.range(0)));
  Matrix l;
  run(state, [&] { l = a.llt().matrixL(); });
}
void eigen_qr(benchmark::State& state) {
  const Matrix a = of_eigen(numbers(state.range(0), state.range(0)));
  Matrix q;
  run(state, [&] { q = Eigen::HouseholderQR<Matrix>(a).householderQ(); });
}
void eigen_eigh(benchmark::State& state) {
  const Matrix a = of_eigen(definite(state.range(0)));
  Matrix vectors;
  run(state, [&] { vectors = Eigen::SelfAdjointEigenSolver<Matrix>(a).eigenvectors(); });
}
BENCHMARK(eigen_solve)->Arg(64)->Arg(256)->Arg(512);
BENCHMARK(eigen_cholesky)->Arg(64)->Arg(256)->Arg(512);
BENCHMARK(eigen_qr)->Arg(64)->Arg(256)->Arg(512);
BENCHMARK(eigen_eigh)->Arg(64)->Arg(256);
#endif

}  // namespace

BENCHMARK_MAIN();

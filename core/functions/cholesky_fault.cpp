// Finds the first leading minor of a matrix that is not positive, by bisection with factors of
// leading submatrices.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/kernels.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/matrix_batch.h>

namespace hero::core {

using namespace linalg;

namespace {

// Whether the first k rows and columns of a [n, n] have a factor.
template <class T>
bool has_factor(int64_t n, int64_t k, const T* a) {
  std::vector<T> part(static_cast<size_t>(k * k)), factor(part.size());
  for (int64_t i = 0; i < k; ++i) std::copy(a + i * n, a + i * n + k, part.data() + i * k);
  return cpu::kernels().matrices<T>().factor_cholesky(k, part.data(), factor.data());
}

template <class T>
int32_t fault_of(int64_t n, const T* a) {
  if (has_factor(n, n, a)) return 0;
  int64_t good = 0, bad = n;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (has_factor(n, middle, a) ? good : bad) = middle;
  }
  return static_cast<int32_t>(bad);
}

}  // namespace

Array cholesky_fault(const Array& a) {
  check_square("cholesky", a);
  if (is_on_gpu(a)) return cholesky_fault(a.to(kCpu)).to(a.device());
  const Shape batch = batch_of(a);
  if (!has_bytes(a)) return Array::empty(batch, kInt32, a.device());
  const Array out = Array::zeros(batch, kInt32);
  if (a.numel() == 0) return out;
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch matrix(a.contiguous(), batch);
    const int64_t n = a.size(-1);
    for_each_matrix("cholesky", batch, "", n * n * n, [&](int64_t i) {
      out.data<int32_t>()[i] = fault_of(n, matrix.at<T>(i));
      return true;
    });
  });
  return out;
}

}  // namespace hero::core

// First values of layers: PyTorch's distribution and bounds. Large layers, so that moments settle.
#include <cmath>
#include <numeric>

#include "support/catch.h"

#include <hero/core/random.h>
#include <hero/nn/nn.h>

using namespace hero;

namespace {

struct Moments {
  double mean, deviation, low, high;
  size_t count;
};

Moments moments(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  Moments m{0.0, 0.0, values[0], values[0], values.size()};
  for (const double value : values) {
    m.mean += value;
    m.low = std::fmin(m.low, value);
    m.high = std::fmax(m.high, value);
  }
  m.mean /= static_cast<double>(values.size());
  for (const double value : values) m.deviation += (value - m.mean) * (value - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

// Uniform in +-bound. The sample mean of n values has deviation s / sqrt(n), the sample deviation
// s sqrt(0.2 / n) for a uniform law (0.5 for a normal one); five of them are allowed, and the
// extremes of n uniform values lie within 20 / n of the bounds but for a chance of e^-10.
void check_uniform(const Tensor& x, double bound) {
  const Moments m = moments(x);
  const double n = static_cast<double>(m.count), s = bound / std::sqrt(3.0);
  CHECK(std::abs(m.mean) < 5.0 * s / std::sqrt(n));
  CHECK(std::abs(m.deviation - s) < 5.0 * s * std::sqrt(0.2 / n));
  CHECK(m.low >= -bound);
  CHECK(m.high <= bound);
  CHECK(m.low < -bound * (1.0 - 20.0 / n));
  CHECK(m.high > bound * (1.0 - 20.0 / n));
}

void check_normal(const Tensor& x) {
  const Moments m = moments(x);
  const double n = static_cast<double>(m.count);
  CHECK(std::abs(m.mean) < 5.0 / std::sqrt(n));
  CHECK(std::abs(m.deviation - 1.0) < 5.0 * std::sqrt(0.5 / n));
  CHECK(m.high > 3.0);  // of 10^4 values and more; a chance of e^-13 that none is
}

void check_all(const Tensor& x, double value) {
  for (const double element : x.to_vector<double>()) CHECK(element == value);
}

double inverse_root(double fan) { return 1.0 / std::sqrt(fan); }

}  // namespace

TEST_CASE("linear and bilinear layers start uniform within 1 / sqrt(inputs)") {
  manual_seed(1);
  const nn::Linear linear(200, 300);
  check_uniform(linear.weight, inverse_root(200));
  check_uniform(linear.bias, inverse_root(200));
  const nn::Bilinear bilinear(50, 20, 300);
  check_uniform(bilinear.weight, inverse_root(50));
  check_uniform(bilinear.bias, inverse_root(50));
}

TEST_CASE("convolutions start uniform within 1 / sqrt(inputs of an output)") {
  manual_seed(2);
  const nn::Conv2d conv2(32, 400, {3, 5}, {.groups = 2});
  check_uniform(conv2.weight, inverse_root(16 * 15));
  check_uniform(conv2.bias, inverse_root(16 * 15));
  const nn::Conv1d conv1(32, 400, 3);
  check_uniform(conv1.weight, inverse_root(32 * 3));
  check_uniform(conv1.bias, inverse_root(32 * 3));
  // PyTorch counts the second dimension of the weight here too: outputs of one group.
  const nn::ConvTranspose2d transpose2(32, 400, 3, {.groups = 2});
  check_uniform(transpose2.weight, inverse_root(200 * 9));
  check_uniform(transpose2.bias, inverse_root(200 * 9));
  const nn::ConvTranspose1d transpose1(32, 400, 3);
  check_uniform(transpose1.weight, inverse_root(400 * 3));
  check_uniform(transpose1.bias, inverse_root(400 * 3));
}

TEST_CASE("embeddings start standard normal but for the padding row of zeros") {
  manual_seed(3);
  const nn::Embedding plain(300, 64);
  check_normal(plain.weight);
  const nn::Embedding padded(300, 64, {.padding_idx = -2});
  check_all(padded.weight.select(0, 298), 0.0);
  check_normal(padded.weight.slice(0, 0, 298));
  CHECK(moments(padded.weight.select(0, 299)).deviation > 0.5);
}

TEST_CASE("normalisation starts as the identity, PReLU at a quarter") {
  const nn::BatchNorm2d batch(7);
  check_all(batch.weight, 1.0);
  check_all(batch.bias, 0.0);
  check_all(batch.running_mean, 0.0);
  check_all(batch.running_var, 1.0);
  CHECK(batch.num_batches_tracked.item<int64_t>() == 0);
  CHECK(batch.num_batches_tracked.dtype() == kInt64);
  const nn::LayerNorm layer({3, 4});
  check_all(layer.weight, 1.0);
  check_all(layer.bias, 0.0);
  check_all(nn::RMSNorm(5).weight, 1.0);
  const nn::GroupNorm group(2, 6);
  check_all(group.weight, 1.0);
  check_all(group.bias, 0.0);
  check_all(nn::PReLU(3).weight, 0.25);
}

TEST_CASE("a slice of an embedding is drawn as in the whole, padding row and all") {
  const nn::Embedding whole(10, 4, {.padding_idx = 3});
  // Rows 2 to 4 of another table by the same recipe and stream.
  nn::Embedding other(10, 4, {.padding_idx = 3});
  for (const auto& [name, slot] : other.slots()) {
    const Array full = Array::empty({10, 4}), part = Array::empty({3, 4});
    nn::fill_part(slot->init, full, {10, 4}, 0, slot->stream);
    nn::fill_part(slot->init, part, {10, 4}, 8, slot->stream);
    const std::vector<float> all = full.to_vector<float>(), some = part.to_vector<float>();
    CHECK(std::vector<float>(all.begin() + 8, all.begin() + 20) == some);
    CHECK(some[4] == 0.0f);
    CHECK(some[0] != 0.0f);
  }
}

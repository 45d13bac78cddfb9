// KeyValueCache: the keys and values of all positions that a model has read.
#include <algorithm>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/generate.h>

namespace hero::nn {

KeyValueCache::KeyValueCache(int64_t capacity) : capacity_(capacity) {
  check(capacity > 0, "KeyValueCache: capacity is ", capacity, "; it must be positive");
}

void KeyValueCache::begin(int64_t T, std::vector<int64_t> counts) {
  check(T > 0 && !counts.empty(), "KeyValueCache: no tokens follow");
  for (const int64_t count : counts) {
    check(count > 0 && count <= T, "KeyValueCache: ", count, " of ", T, " tokens of a row count");
  }
  if (read_.empty()) read_ = {0};
  check(read_.size() == 1 || read_.size() == counts.size(), "KeyValueCache: ", counts.size(),
        " rows follow ", read_.size());
  const int64_t most = *std::max_element(read_.begin(), read_.end());
  check(most + T <= capacity_, "KeyValueCache: ", T, " tokens follow ", most,
        ", and there is room for ", capacity_);
  T_ = T;
  counts_ = std::move(counts);
}

void KeyValueCache::end() {
  check_begun();
  const bool even = std::all_of(counts_.begin(), counts_.end(),
                                [this](int64_t count) { return count == counts_.front(); });
  if (!even && read_.size() == 1) read_.assign(counts_.size(), read_.front());
  for (size_t b = 0; b < read_.size(); ++b) read_[b] += counts_[b];
}

void KeyValueCache::clear() { read_.clear(); }

std::span<const int64_t> KeyValueCache::first() const { return read_; }

void KeyValueCache::check_begun() const {
  check(!read_.empty(), "KeyValueCache: nothing was read; call begin() first");
}

Tensor KeyValueCache::positions(Device device) const {
  check_begun();
  const Tensor steps = arange(Scalar(T_), {.device = device});
  if (read_.size() == 1) return steps + read_.front();
  return unsqueeze(tensor(read_).to(device), 1) + steps;
}

Tensor KeyValueCache::attend(size_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionOptions& options) {
  const NoGrad no_grad;
  check_begun();
  check(k.ndim() == 4 && k.size(2) == T_ && k.size(0) == static_cast<int64_t>(counts_.size()),
        "KeyValueCache: keys ", k.shape(), " are not [B, G, T, D] of ", counts_.size(), " rows of ",
        T_, " new tokens");
  if (layer >= layers_.size()) layers_.resize(layer + 1);
  Layer& kept = layers_[layer];
  const auto room = [&](Tensor& all, const Tensor& fresh) {
    Shape shape = fresh.shape();
    shape[2] = capacity_;
    const bool fits = all.defined() && all.shape() == shape && all.dtype() == fresh.dtype() &&
                      all.device() == fresh.device();
    if (!fits) all = empty(shape, {.dtype = fresh.dtype(), .device = fresh.device()});
  };
  room(kept.k, k);
  room(kept.v, v);
  // rows first_row ... first_row + rows - 1, which have read alike
  const auto attend_rows = [&](int64_t first_row, int64_t rows, int64_t read) {
    const auto part = [&](const Tensor& x) { return x.slice(0, first_row, first_row + rows); };
    const auto keep = [&](const Tensor& all, const Tensor& fresh) {
      part(all).slice(2, read, read + T_).copy_(part(fresh));
      return part(all).slice(2, 0, read + T_);
    };
    AttentionOptions seen = options;
    seen.is_causal = T_ > 1;  // a single query sees all keys
    seen.first_query = T_ > 1 ? read : 0;
    return scaled_dot_product_attention(part(q), keep(kept.k, k), keep(kept.v, v), seen);
  };
  if (read_.size() == 1) return attend_rows(0, q.size(0), read_.front());
  std::vector<Tensor> rows;
  for (int64_t b = 0; b < q.size(0); ++b) {
    rows.push_back(attend_rows(b, 1, read_[static_cast<size_t>(b)]));
  }
  return cat(rows, 0);
}

Tensor KeyValueCache::last(const Tensor& x) const {
  check_begun();
  const bool whole =
      std::all_of(counts_.begin(), counts_.end(), [this](int64_t count) { return count == T_; });
  if (whole) return x.select(1, -1);
  std::vector<Tensor> rows;
  for (size_t b = 0; b < counts_.size(); ++b) {
    rows.push_back(x.select(0, static_cast<int64_t>(b)).select(0, counts_[b] - 1));
  }
  return stack(rows, 0);
}

}  // namespace hero::nn

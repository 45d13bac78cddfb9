// The meta device: shapes without bytes. Every family has nothing to compute; what needs values
// fails.
#include <hero/core/backend.h>
#include <hero/core/fetcher.h>
#include <hero/core/meta/planned_host.h>

namespace hero::core {

namespace {

// Of an array that lies in a planned file other devices would ask for the bytes.
void ask_for(const Array& array) {
  if (array.numel() > 0 && is_away(array)) fetcher_of(array.storage())->fetch();
}

class MetaBackend final : public Backend {
 public:
  void map(MapOp, std::span<const Operand> inputs, DType, const Array& out) override {
    for (const Operand& input : inputs) {
      if (input.array != nullptr) ask_for(*input.array);
    }
    ask_for(out);
  }
  void copy(const Array& src, const Array& dst) override {
    ask_for(src);
    ask_for(dst);
  }
  void fill(const Array& out, Scalar) override { ask_for(out); }
  void reduce(ReduceKind, const Array&, const Array*, const Array&) override {}
  void exact_sum(ReduceKind, std::span<const Array>, const Array&) override {}
  void exact_result(SumResult, const Array&, const Array&) override {}
  void limit_norm(std::span<const Array>, const Array&, double) override {}
  void arg_reduce(ArgOp, const Array&, int, const Array&, const Array&) override {}
  void scan(ScanOp, Direction, const Array&, int, const Array&) override {}
  void matmul(const Array&, const Array&, const Array&) override {}
  PackedMatrix pack_matrix(const Array& b) override {
    return {b.size(0), b.size(1), Array::empty({b.numel()}, b.dtype(), b.device())};
  }
  void matmul_packed(const Array&, const PackedMatrix&, const Array&) override {}
  void linear(Activation, const Array&, const Array&, const Array*, const Array&,
              const Array*) override {}
  void linear_backward(const LinearBack&) override {}
  void softmax(SoftmaxKind, const Array&, int, const Array&) override {}
  void softmax_backward(SoftmaxKind, const Array&, const Array&, int, const Array&) override {}
  Array checked_index(const char*, const Array& index, int64_t) override {
    return index.to(kInt64);
  }
  void gather(const Array&, int, const Array&, const Array&) override {}
  void scatter(ScatterMode, const Array&, int, const Array&, const Array&) override {}
  void index_select(const Array&, int, const Array&, const Array&) override {}
  void index_add(const Array&, int, const Array&, Scalar, const Array&) override {}
  void weigh(const SparseRows&, const Array&, int, const Array&) override {}
  void sort(const Array&, int, bool, const Array&, const Array&) override {}
  Array nonzero(const Array& x) override {
    fail("nonzero: the result's shape depends on values, and meta array ", x.shape(),
         " has none; use a cpu array");
  }
  void im2col(const Array&, const Window&, const Array&) override {}
  void col2im(const Array&, const Window&, const Array&) override {}
  void pool(PoolOp, const Array&, const Window&, const Array&, const Array*) override {}
  void max_pool_backward(const Array&, const Window&, const Array&, const Array&) override {}
  void average_pool_backward(const Array&, const Window&, const Array&) override {}
  void random(const RandomFill&, int64_t, const Array&) override {}
  void bias_activation(Activation, const Array*, const Array&, const Array&) override {}
  void normalize_rows(const RowNorm&, const Array&, const Array&, const Array&,
                      const Array&) override {}
  void normalize_rows_backward(const RowNorm&, const Array&, const Array&, const Array&,
                               const Array&, const Array&, const Array*, const Array*) override {}
  void normalize_channels(const ChannelNorm&, const Array&, const Array&, const Array&,
                          const Array&) override {}
  void normalize_channels_backward(const ChannelNorm&, const Array&, const Array&, const Array&,
                                   const Array&, const Array*, const Array*,
                                   const Array*) override {}
  void attention(const AttentionScores&, const Array&, const Array&, const Array&, const Array&,
                 const Array&) override {}
  void attention_backward(const AttentionScores&, const Array&, const Array&, const Array&,
                          const Array&, const Array&, const Array&, const Array&, const Array&,
                          const Array&) override {}
  void log_likelihood(const Array&, const Array&, const Array&, const Array&) override {}
  void log_likelihood_backward(const Array&, const Array&, const Array&, const Array&,
                               const Array&) override {}
  void recurrent_cell(CellKind, const CellStep&) override {}
  void recurrent_cell_backward(CellKind, const CellStepBack&) override {}
  void random_mask(const RandomFill&, double, const Array&, const Array&) override {}
  void update(UpdateOp, DType, std::span<const UpdateItem>, std::span<const double>) override {}
  void encode(Codec, const Array& x, int64_t, const Array&, const Array*) override { ask_for(x); }
  void decode(Codec, const Array&, int64_t, DecodeMode, const Array&) override {}
};

}  // namespace

Backend& meta_backend() {
  static auto* const backend = new MetaBackend;  // leaked, as that of the cpu
  return *backend;
}

Backend& planned_host_backend() {
  static auto* const backend = new MetaBackend;
  return *backend;
}

}  // namespace hero::core

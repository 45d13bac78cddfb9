#include <algorithm>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/collectives.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/dist/sync_batch_norm.h>

namespace hero::dist {
namespace {

// T[0, n) = T[0, p) + T[p, n) of the rows of x [N, C], p the largest power of two below n: [C].
Array sum_of_rows(const Array& x) {
  const int64_t rows = x.size(0);
  if (rows == 0) return Array::zeros({x.size(1)}, x.dtype(), x.device());
  if (rows == 1) return x.select(0, 0).clone();
  int64_t half = 1;
  while (2 * half < rows) half *= 2;
  return core::map<core::kernels::Add>(sum_of_rows(x.slice(0, 0, half)),
                                       sum_of_rows(x.slice(0, half)));
}

Tensor repeated_rows(const Tensor& x, int64_t rows);

// The sum of the rows of x [N, C] in a tree: [C].
struct SumOfRows : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int64_t rows = 0;
  const char* name() const override { return "sync_batch_norm_sum"; }
  Array forward(const Array& x) {
    rows = x.size(0);
    return sum_of_rows(x);
  }
  Grads backward(const Tensor& g) override { return {repeated_rows(g, rows)}; }
};

// x [C] once for each of N rows, whose gradients are added up in a tree.
struct RepeatedRows : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  int64_t rows;
  explicit RepeatedRows(int64_t n) : rows(n) {}
  const char* name() const override { return "sync_batch_norm_rows"; }
  Array forward(const Array& x) const { return x.unsqueeze(0).expand({rows, x.size(0)}).clone(); }
  Grads backward(const Tensor& g) override { return {record(SumOfRows(), g)}; }
};

Tensor repeated_rows(const Tensor& x, int64_t rows) { return record(RepeatedRows(rows), x); }

}  // namespace

SyncBatchNorm::SyncBatchNorm(int64_t features, const Communicator& group,
                             const nn::BatchNormOptions& options)
    : BatchNorm(features, options) {
  check(group.defined(), "SyncBatchNorm: the group of ranks is undefined");
  group_ = std::make_shared<CommunicatorGroup>(group);
}

void SyncBatchNorm::check_input(const Tensor& x) const {
  check(x.ndim() >= 2 && x.size(1) == num_features, "SyncBatchNorm: expected [N, ", num_features,
        ", ..], got ", x.shape());
}

Tensor SyncBatchNorm::forward(const Tensor& x) {
  if (!training() && running_mean.defined()) return BatchNorm::forward(x);
  check_input(x);
  const DType wide = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const int64_t N = x.size(0), C = num_features;
  int64_t values = 1;  // of a channel in a sample
  for (int d = 2; d < x.ndim(); ++d) values *= x.size(d);
  const Tensor y = x.to(wide).reshape({N, C, values});
  const auto samples = [&](const Tensor& each) { return unsqueeze(repeated_rows(each, N), -1); };
  const auto sum_of_samples = [](const Tensor& t) { return record(SumOfRows(), sum(t, {-1})); };
  const Tensor size =
      full({1}, static_cast<double>(N * values), {.dtype = wide, .device = x.device()});
  // Ranks add up what samples say of these, before it goes on to what they are made of: so
  // gradients are sums over samples in a tree, whoever has them.
  const auto copies = [this](const Tensor& whole) { return collectives::copy_in(whole, group_); };
  const Tensor first = collectives::sum_out(cat({sum_of_samples(y), size}, 0), group_);
  const Tensor count = first.slice(0, C).detach();
  // Whoever has two values knows that there are enough, and does not wait for the number.
  if (N * values <= 1 && x.device().type != DeviceType::meta) {
    check(count.item() > 1,
          "SyncBatchNorm: training needs more than one value per channel: ", x.shape(),
          " here, and ", count.item<int64_t>(), " on all ranks; use a larger batch or eval()");
  }
  const Tensor mean = first.slice(0, 0, C) / count;
  const Tensor centred = y - samples(copies(mean));
  const Tensor variance = collectives::sum_out(sum_of_samples(square(centred)), group_) / count;
  Tensor out = centred * samples(copies(1 / sqrt(variance + options().eps)));
  if (weight.defined()) out = out * samples(weight.to(wide));
  if (bias.defined()) out = out + samples(bias.to(wide));
  if (training() && running_mean.defined() && !recomputing()) {
    const NoGrad no_grad;
    const double momentum = next_momentum();
    const Tensor unbiased = variance.detach() * (count / (count - 1));
    running_mean.copy_(running_mean * (1 - momentum) + mean.detach() * momentum);
    running_var.copy_(running_var * (1 - momentum) + unbiased * momentum);
  }
  return out.reshape(x.shape()).to(x.dtype());
}

int convert_sync_batch_norm(nn::Module& module, const Communicator& group) {
  nn::Named<nn::BatchNorm*> found;
  for (const auto& [path, each] : module.named_modules()) {
    auto* norm = dynamic_cast<nn::BatchNorm*>(each);
    if (norm == nullptr || dynamic_cast<SyncBatchNorm*>(each) != nullptr) continue;
    check(!path.empty(), "convert_sync_batch_norm: the module is a ", each->type_name(),
          " itself; make a SyncBatchNorm in its place");
    found.emplace_back(path, norm);
  }
  for (const auto& [path, norm] : found) {
    const nn::DeviceScope planned(kMeta);  // its own parameters and buffers take no memory
    auto made = std::make_unique<SyncBatchNorm>(norm->num_features, group, norm->options());
    made->weight = norm->weight;
    made->bias = norm->bias;
    made->running_mean = norm->running_mean;
    made->running_var = norm->running_var;
    made->num_batches_tracked = norm->num_batches_tracked;
    made->train(norm->training());
    module.replace(path, std::unique_ptr<nn::Module>(std::move(made)));
  }
  return static_cast<int>(found.size());
}

}  // namespace hero::dist

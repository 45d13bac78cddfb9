// Hero's side of tests/peers/cores: what has to become faster, or at least not slower, on more
// cores. Cases with the names of those of cores_torch.py do the same work; the others have no
// counterpart there. THREADS is also the number of ranks, and of workers of the loader.
#include <cstdint>
#include <memory>
#include <vector>

#include <peers/programs/speed.h>

#include <hero/autograd/autograd.h>
#include <hero/core/thread_pool.h>
#include <hero/dist/dist.h>
#include <hero/nn/data/loader.h>

namespace {

using namespace hero;

constexpr int kRegions = 1000, kSums = 20;
constexpr int64_t kSamples = 512, kBatch = 32;

peers::Case matmul_of(int64_t n) {
  return {1, [n] {
            const Tensor a = rand({n, n}), b = rand({n, n});
            return [a, b] { matmul(a, b); };
          }};
}

// The costs of waking all threads and waiting for them, with a chunk for each.
peers::Case region() {
  return {kRegions, [] {
            return [threads = num_threads()] {
              for (int i = 0; i < kRegions; ++i) {
                parallel_for(threads, 1, [](int64_t, int64_t) {});
              }
            };
          }};
}

peers::Case sum_of(int64_t n) {
  return {1, [n] {
            const Tensor x = rand({n});
            return [x] { sum(x); };
          }};
}

// Ranks that are threads add up 4 MiB each; starting them counts a twentieth.
peers::Case all_reduce() {
  return {kSums, [] {
            return [ranks = num_threads()] {
              dist::run_ranks(ranks, [](dist::Communicator& world) {
                const core::Array x = core::Array::ones({1 << 20});
                for (int i = 0; i < kSums; ++i) world.all_reduce(x, {.op = dist::ReduceOp::mean});
              });
            };
          }};
}

// An image that is cut out, mirrored and normalised.
class Images : public nn::data::Dataset {
 public:
  int64_t size() const override { return kSamples; }
  nn::data::Example get(int64_t index) const override {
    const int64_t at = index % 32;
    const Tensor cut = image_.slice(1, at, at + 224).slice(2, at, at + 224);
    return {(flip(cut, {2}) - mean_) / std_, full({}, static_cast<double>(index))};
  }

 private:
  Tensor image_ = rand({3, 256, 256}), mean_ = rand({3, 1, 1}), std_ = rand({3, 1, 1}) + 0.5;
};

// A batch, in passes of 16.
peers::Case loader() {
  return {kSamples / kBatch, [] {
            nn::data::DataLoaderOptions options{.batch_size = kBatch, .workers = num_threads()};
            auto loader = std::make_shared<nn::data::DataLoader>(Images(), options);
            return [loader] {
              for (const nn::data::Example& batch : *loader) (void)batch;
            };
          }};
}

}  // namespace

int main() {
  const peers::Cases cases = {
      {"region", region()},           {"sum", sum_of(int64_t{1} << 24)},
      {"matmul_512", matmul_of(512)}, {"matmul_2048", matmul_of(2048)},
      {"all_reduce", all_reduce()},   {"loader", loader()},
  };
  return peers::answer(cases, set_num_threads);
}

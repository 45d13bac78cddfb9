// offload() of what a GPU's operations save, to the host's memory and to a file.
#include <filesystem>

#include "cuda/deferred.h"
#include "cuda/same_bits.h"

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>
#include <hero/core/swap_file.h>
#include <hero/cuda/graph.h>
#include <hero/nn/gpt.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero_test;

namespace {

#if defined(HERO_TEST_CUSIM)
using LateDevice = Deferred;
#else
struct [[maybe_unused]] LateDevice {};
#endif

std::string activations_folder() { return std::filesystem::temp_directory_path().string(); }

// Losses and parameters of three steps of a small GPT on the GPU.
std::vector<Array> trained_gpt(const std::optional<OffloadOptions>& offload, bool checkpoint) {
  manual_seed(1);
  nn::GPT model({.vocab_size = 17,
                 .block_size = 8,
                 .n_layer = 4,
                 .n_head = 2,
                 .n_embd = 16,
                 .dropout = 0.1,
                 .checkpoint = checkpoint,
                 .offload = offload});
  model.to(kGpu);
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < 16; ++i) numbers.push_back(i * 7 % 17);
  const Tensor tokens(Array::from(numbers, {2, 8}).to(kGpu));
  std::vector<Array> list;
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = model.loss(tokens, tokens);
    list.push_back(loss.array().to(kCpu));
    adamw.zero_grad();
    loss.backward();
    adamw.step();
  }
  for (const Tensor& p : model.parameters()) list.push_back(p.array().to(kCpu));
  return list;
}

void check_trained(const std::vector<Array>& a, const std::vector<Array>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(a[i], b[i]));
  }
}

// The same GPT without, in the host's memory and in a file, with and without checkpoints.
void check_gpt() {
  core::SwapFile disk(activations_folder(), {.bytes = int64_t{1} << 22});
  for (const bool checkpoint : {false, true}) {
    CAPTURE(checkpoint);
    const auto plain = trained_gpt({}, checkpoint);
    const OffloadTraffic before = offload_traffic();
    check_trained(plain, trained_gpt(OffloadOptions{}, checkpoint));
    const OffloadTraffic after = offload_traffic();
    CHECK(after.to_host > before.to_host);
    CHECK(after.to_device - before.to_device == after.to_host - before.to_host);
    CHECK(after.to_disk == before.to_disk);
    check_trained(plain, trained_gpt(OffloadOptions{.disk = &disk}, checkpoint));
  }
  CHECK(disk.written_bytes() > 0);
  CHECK(disk.read_bytes() == disk.written_bytes());
  CHECK(disk.used() == 0);
}

Tensor saving_three(const Tensor& x) { return tanh(exp(tanh(x))); }

constexpr int64_t kActivation = 1 << 16;  // bytes

}  // namespace

TEST_CASE("a GPT whose blocks are offloaded has the bits of one that keeps all on the GPU") {
  HERO_NEEDS_GPU();
  check_gpt();
}

TEST_CASE("offloaded activations wait for all copies that they need") {
  HERO_NEEDS_GPU();
  const LateDevice device;
  check_gpt();
}

TEST_CASE("offloaded activations move by the formulas, and the GPU holds those of few blocks") {
  HERO_NEEDS_GPU();
  const auto peaks = [](int blocks) {
    Ledger ledger;
    const LedgerScope scope(ledger);
    const OffloadTraffic before = offload_traffic();
    const Tensor x(Array::full({kActivation / 4}, 0.25, kFloat32, kGpu), true);
    const int64_t own = ledger.live(DeviceType::cuda);
    Tensor y = x;
    for (int i = 0; i < blocks; ++i) y = offload(saving_three, y);
    y = sum(y);
    // Two of each block, and the results of all but the last two, which the program held so long.
    const int64_t expected = (2 * blocks + blocks - 2) * kActivation;
    OffloadTraffic now = offload_traffic();
    CHECK(now.to_host - before.to_host == expected);
    CHECK(now.to_device == before.to_device);
    CHECK(ledger.live(MemoryTag::activation, DeviceType::cpu) == expected);
    const int64_t forward = ledger.peak(DeviceType::cuda) - own;
    ledger.reset_peak();
    y.backward();
    now = offload_traffic();
    CHECK(now.to_host - before.to_host == expected);
    CHECK(now.to_device - before.to_device == expected);
    CHECK(ledger.live(MemoryTag::activation, DeviceType::cpu) == 0);
    const int64_t backward = ledger.peak(DeviceType::cuda) - own;
    return std::pair{forward / kActivation, backward / kActivation};
  };
  const auto few = peaks(5);
  CHECK(few.first <= 3 + 3);       // a block with its operands, and the results of those before
  CHECK(few.second <= 3 + 3 + 5);  // two blocks, and tanh's derivative
  CHECK(peaks(15) == few);
}

TEST_CASE("a step that offloads cannot be captured, since the host waits for its copies") {
  HERO_NEEDS_GPU();
  const Tensor x(Array::full({1000}, 0.25, kFloat32, kGpu), true);
  const auto gradient = [&](bool offloads) {
    Tensor y = x;
    for (int i = 0; i < 3; ++i) y = offloads ? offload(saving_three, y) : saving_three(y);
    return grad(sum(y), x).array();
  };
  cuda::GraphedStep step(
      [&](const std::vector<Array>&) { return std::vector<Array>{gradient(true)}; });
  const Array plain = gradient(false).to(kCpu);
  for (int warmup = 0; warmup < 2; ++warmup) CHECK(same_bits(step({})[0], plain));
  CHECK_THROWS_WITH(step({}), Catch::Matchers::ContainsSubstring("captur"));
  CHECK(same_bits(gradient(true), plain));
}

TEST_CASE("a retained graph brings what was offloaded to the host again, and sends nothing") {
  HERO_NEEDS_GPU();
  const LateDevice device;
  const Tensor x(Array::full({1000}, 0.25, kFloat32, kGpu), true);
  Tensor y = x;
  for (int i = 0; i < 4; ++i) y = offload(saving_three, y);
  y = sum(y);
  Tensor z = x;
  for (int i = 0; i < 4; ++i) z = saving_three(z);
  const Array plain = grad(sum(z), x).array().to(kCpu);
  const OffloadTraffic before = offload_traffic();
  for (int pass = 1; pass <= 3; ++pass) {
    CHECK(same_bits(grad(y, x, {.retain_graph = pass < 3}).array(), plain));
    const OffloadTraffic now = offload_traffic();
    CHECK(now.to_host == before.to_host);
    CHECK(now.to_device - before.to_device == pass * 10 * 4000);
  }
}

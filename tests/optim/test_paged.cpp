// States in a file: the bits of states in memory, and no more memory than three windows.
#include <filesystem>

#include "optim/all_optimizers.h"
#include <fcntl.h>
#include <unistd.h>

#include <hero/optim/paged.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using core::SwapFile;
using optim::AdamW;
using optim::AdamWOptions;
using optim::MasterWeights;
using optim::Paged;
using optim::PagedOptions;

namespace {

constexpr int64_t kBlock = SwapFile::kBlock;

std::string paged_folder() { return std::filesystem::temp_directory_path().string(); }

// Of several sizes; the one with no element, and every other one of half precision where asked.
std::vector<Tensor> paged_leaves(bool halves = false) {
  std::vector<Tensor> leaves;
  int seed = 0;
  for (const int64_t n : {700, 1, 0, 3000, 64, 5, 2000, 1024}) {
    const Tensor leaf = noise(n, ++seed);
    leaves.push_back(halves && seed % 2 == 0 ? Tensor(leaf.array().to(kBFloat16), true) : leaf);
  }
  return leaves;
}

// In some steps some parameters have no gradient, even whole windows of them.
void give_some(const std::vector<Tensor>& params, int step) {
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].set_grad({});
    if (step == 3 && i < 4) continue;
    if (step == 2 && i % 3 == 1) continue;
    if (step == 5) continue;
    const Array grad = noise(params[i].numel(), 100 + step).array();
    params[i].set_grad(Tensor(grad.reshape(params[i].shape()).to(params[i].dtype())));
  }
}

template <class O, class Options>
void check_paged(const Options& options, bool halves = false) {
  for (const int64_t window : {int64_t{1}, int64_t{9000}, int64_t{1} << 40}) {
    INFO(window << " bytes a window");
    SwapFile file(paged_folder(), {.bytes = int64_t{1} << 20});
    const auto plain = paged_leaves(halves), paged = paged_leaves(halves);
    O expected(plain, options);
    Paged<O> optimizer(file, paged, options, {.window_bytes = window});
    const auto check_alike = [&] {
      for (size_t i = 0; i < plain.size(); ++i) REQUIRE(same_bits(plain[i], paged[i]));
    };
    for (int step = 0; step < 8; ++step) {
      give_some(plain, step);
      give_some(paged, step);
      expected.step();
      optimizer.step();
      check_alike();
    }
    // its states are the plain one's, and go from one to the other
    const optim::StateDict states = optimizer.state_dict();
    O later(plain, options);
    later.load_state_dict(states);
    optimizer.load_state_dict(expected.state_dict());
    give_some(plain, 9);
    give_some(paged, 9);
    later.step();
    optimizer.step();
    check_alike();
  }
}

}  // namespace

TEST_CASE("paged: every elementwise optimizer has the bits of its states in memory", "[paged]") {
  using namespace optim;
  check_paged<SGD>(SGDOptions{.lr = 0.1});
  check_paged<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2});
  check_paged<Adagrad>(AdagradOptions{.lr = 0.1, .weight_decay = 0.1});
  check_paged<RMSprop>(RMSpropOptions{.momentum = 0.9, .centered = true});
  check_paged<Adadelta>(AdadeltaOptions{});
  check_paged<Adam>(AdamOptions{.lr = 0.01, .weight_decay = 0.1});
  check_paged<AdamW>(AdamWOptions{.lr = 0.01});
  check_paged<AdamW>(AdamWOptions{.lr = 0.01, .amsgrad = true, .maximize = true});
  check_paged<Adamax>(AdamaxOptions{});
  check_paged<NAdam>(NAdamOptions{.decoupled_weight_decay = true});
  check_paged<RAdam>(RAdamOptions{.betas = {0.9, 0.7}});
  check_paged<Lion>(LionOptions{.weight_decay = 0.1});
}

TEST_CASE("paged: masters lie in the file too", "[paged]") {
  check_paged<MasterWeights<AdamW>>(AdamWOptions{.lr = 0.01}, true);
  check_paged<MasterWeights<optim::SGD>>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}, true);
}

TEST_CASE("paged: a step holds three windows and moves every state once", "[paged]") {
  constexpr int kParams = 9;
  constexpr int64_t kEach = 4 * kBlock;  // bytes of one state of one parameter
  SwapFile file(paged_folder(), {.bytes = kParams * 3 * kEach});
  Ledger ledger;
  const LedgerScope scope(ledger);
  std::vector<Tensor> params;
  for (int i = 0; i < kParams; ++i) {
    params.push_back(Tensor(noise(kEach / 4, i).array().to(kBFloat16), true));
  }
  // exp_avg, exp_avg_sq and the master: one parameter a window
  Paged<MasterWeights<AdamW>> adamw(file, params, {.lr = 0.01}, {.window_bytes = 3 * kEach});
  CHECK(file.written_bytes() == kParams * kEach);  // the masters
  CHECK(ledger.live(MemoryTag::optimizer) == 0);
  give_some(params, 0);
  adamw.step();  // the two others are made
  CHECK(file.read_bytes() == kParams * kEach);
  CHECK(file.written_bytes() == kParams * kEach * 4);
  for (int step = 1; step < 3; ++step) {
    give_some(params, 0);
    const int64_t read = file.read_bytes(), written = file.written_bytes();
    ledger.reset_peak();
    adamw.step();
    CHECK(file.read_bytes() - read == kParams * 3 * kEach);
    CHECK(file.written_bytes() - written == kParams * 3 * kEach);
    CHECK(ledger.live(MemoryTag::optimizer) == 0);
    // and the gradient of one parameter in float32
    CHECK(ledger.peak(MemoryTag::optimizer) <= 3 * 3 * kEach + kEach);
  }
  CHECK(file.used() == file.bytes());
}

TEST_CASE("paged: the program of the page", "[paged]") {
  const std::vector<Tensor> parameters = paged_leaves();
  const std::string folder = paged_folder();
  // [snippet: page]
  core::SwapFile disk(folder, {.bytes = int64_t{1} << 20});
  optim::Paged<optim::AdamW> adamw(disk, parameters, {.lr = 3e-4});
  // [end]
  give_some(parameters, 0);
  adamw.step();
  CHECK(disk.written_bytes() > 0);
}

TEST_CASE("paged: without a gradient nothing is read", "[paged]") {
  SwapFile file(paged_folder(), {.bytes = int64_t{1} << 20});
  const auto params = paged_leaves();
  Paged<AdamW> adamw(file, params, {}, {.window_bytes = 1});
  give_some(params, 0);
  adamw.step();
  adamw.zero_grad();
  const int64_t read = file.read_bytes(), written = file.written_bytes();
  adamw.step();
  CHECK(file.read_bytes() == read);
  CHECK(file.written_bytes() == written);
}

TEST_CASE("paged: a state that the disk changed is a named error, and a checkpoint mends it",
          "[paged]") {
  SwapFile file(paged_folder(), {.bytes = int64_t{1} << 20});
  const auto params = paged_leaves();
  const auto plain = paged_leaves();
  Paged<AdamW> adamw(file, params, {}, {.window_bytes = 9000});
  AdamW expected(plain, {});
  give_some(params, 0);
  give_some(plain, 0);
  adamw.step();
  expected.step();
  const int fd = ::open(("/proc/self/fd/" + std::to_string(file.descriptor())).c_str(), O_RDWR);
  REQUIRE(fd >= 0);
  char byte = 0;
  REQUIRE(::pread(fd, &byte, 1, kBlock + 7) == 1);
  byte = static_cast<char>(byte ^ 1);
  REQUIRE(::pwrite(fd, &byte, 1, kBlock + 7) == 1);
  ::fsync(fd);
  ::close(fd);
  CHECK_THROWS_WITH(adamw.step(), ContainsSubstring("swap file in ") &&
                                      ContainsSubstring("other bytes than were written"));
  CHECK_THROWS_WITH(adamw.step(), ContainsSubstring("holds nothing"));
  // a new optimizer, as after a restart
  SwapFile other(paged_folder(), {.bytes = int64_t{1} << 20});
  for (size_t i = 0; i < params.size(); ++i) {
    const NoGrad no_grad;
    params[i].copy_(plain[i]);
  }
  Paged<AdamW> again(other, params, {}, {.window_bytes = 9000});
  again.load_state_dict(expected.state_dict());
  give_some(params, 1);
  give_some(plain, 1);
  again.step();
  expected.step();
  for (size_t i = 0; i < params.size(); ++i) CHECK(same_bits(params[i], plain[i]));
}

TEST_CASE("paged: a file that is too small says so and keeps the states", "[paged]") {
  SwapFile file(paged_folder(), {.bytes = 3 * kBlock});
  const auto params = paged_leaves();
  Paged<AdamW> adamw(file, params, {}, {.window_bytes = 1});
  give_some(params, 0);
  CHECK_THROWS_WITH(adamw.step(), ContainsSubstring("there is no room for"));
  CHECK_THROWS_WITH(Paged<AdamW>(file, params, {}, {.window_bytes = 0}),
                    ContainsSubstring("a window has at least 1 byte: 0"));
}

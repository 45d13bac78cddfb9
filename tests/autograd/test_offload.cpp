// What offload() promises: the bits of gradients without it, the bytes that move and that stay, and
// errors of a disk that leave what is in memory as it was.
#include <cstring>
#include <filesystem>
#include <thread>

#include "support/catch.h"
#include <fcntl.h>
#include <unistd.h>

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>
#include <hero/core/swap_file.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using core::SwapFile;

namespace {

constexpr int64_t kUnit = 4 * SwapFile::kBlock;  // bytes of an activation where they are counted

std::string offload_folder() { return std::filesystem::temp_directory_path().string(); }

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.array().bytes(), b.array().bytes(),
                     static_cast<size_t>(a.array().nbytes())) == 0;
}

void check_alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(i);
    CHECK(same_bytes(a[i], b[i]));
  }
}

// Two layers with a residual path, dropout, a normalisation and a parameter used twice.
struct OffloadedBlock {
  Tensor w = randn({8, 8}, {.requires_grad = true});
  Tensor v = randn({8, 8}, {.requires_grad = true});
  Tensor gain = rand({8}, {.requires_grad = true});
  Tensor operator()(const Tensor& x) const {
    const Tensor h = dropout(gelu(linear(layer_norm(x, {8}, gain), w)), 0.3);
    return x + tanh(linear(h, v)) + linear(x, w);
  }
};

// Gradients of input and parameters of some blocks; `call` runs one.
template <class Call>
std::vector<Tensor> gradients_of(Call&& call) {
  manual_seed(7);
  const std::vector<OffloadedBlock> blocks(5);
  const Tensor x = randn({4, 8}, {.requires_grad = true});
  Tensor y = x;
  for (const OffloadedBlock& block : blocks) y = call(block, y);
  sum(square(y)).backward();
  std::vector<Tensor> list = {x.grad(), rand({3})};  // the generator goes on as without
  for (const OffloadedBlock& block : blocks) {
    for (const Tensor& p : {block.w, block.v, block.gain}) list.push_back(p.grad());
  }
  return list;
}

// Saves two activations that nobody else sees, and its result.
Tensor three_saved(const Tensor& x) { return tanh(exp(tanh(x))); }

// What one did since, of the calling thread.
OffloadTraffic operator-(OffloadTraffic a, const OffloadTraffic& b) {
  return {.to_host = a.to_host - b.to_host,
          .to_device = a.to_device - b.to_device,
          .to_disk = a.to_disk - b.to_disk,
          .from_disk = a.from_disk - b.from_disk};
}

Tensor chain_of(int blocks, const Tensor& x, SwapFile& disk) {
  Tensor y = x;
  for (int i = 0; i < blocks; ++i) y = offload({.disk = &disk}, three_saved, y);
  return y;
}

// Changes a byte of the file, in what was written to it last.
void flip_byte(const SwapFile& file, int64_t at) {
  const int fd = ::open(("/proc/self/fd/" + std::to_string(file.descriptor())).c_str(), O_RDWR);
  REQUIRE(fd >= 0);
  char byte = 0;
  REQUIRE(::pread(fd, &byte, 1, at) == 1);
  byte = static_cast<char>(byte ^ 1);
  REQUIRE(::pwrite(fd, &byte, 1, at) == 1);
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

TEST_CASE("offloaded gradients have the bits of plain ones, and nothing is left in the file") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const OffloadOptions to_disk = {.disk = &disk};
  const auto plain = gradients_of([](const OffloadedBlock& b, const Tensor& x) { return b(x); });
  check_alike(plain, gradients_of([&](const OffloadedBlock& b, const Tensor& x) {
                return offload(to_disk, b, x);
              }));
  CHECK(disk.written_bytes() > 0);
  CHECK(disk.read_bytes() == disk.written_bytes());
  CHECK(disk.used() == 0);
  // On the cpu, without a file, there is nowhere to go.
  const OffloadTraffic before = offload_traffic();
  check_alike(plain,
              gradients_of([](const OffloadedBlock& b, const Tensor& x) { return offload(b, x); }));
  CHECK(offload_traffic() == before);
}

TEST_CASE("offloads and checkpoints lie in each other") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const OffloadOptions to_disk = {.disk = &disk};
  const auto plain = gradients_of([](const OffloadedBlock& b, const Tensor& x) { return b(x); });
  check_alike(plain, gradients_of([&](const OffloadedBlock& b, const Tensor& x) {
                return offload(
                    to_disk, [&](const Tensor& z) { return offload(to_disk, b, z); }, x);
              }));
  const int64_t written = offload_traffic().to_disk;
  CHECK(disk.written_bytes() > 0);
  // A checkpoint keeps its input alone: of five those that the program does not hold leave, which
  // are the results of the first three blocks. The leaf x stays.
  check_alike(plain, gradients_of([&](const OffloadedBlock& b, const Tensor& x) {
                return offload(
                    to_disk, [&](const Tensor& z) { return checkpoint(b, z); }, x);
              }));
  CHECK(offload_traffic().to_disk - written == 3 * SwapFile::kBlock);
  check_alike(plain, gradients_of([&](const OffloadedBlock& b, const Tensor& x) {
                return checkpoint([&, b](const Tensor& z) { return offload(to_disk, b, z); }, x);
              }));
  CHECK(offload_traffic().to_disk - written == 3 * SwapFile::kBlock);
  CHECK(disk.used() == 0);
}

TEST_CASE("under autocast offloaded gradients have the same bits") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const auto run = [&](bool on) {
    return gradients_of([&](const OffloadedBlock& b, const Tensor& x) {
      const Autocast autocast({.dtype = kBFloat16});
      return on ? offload({.disk = &disk}, b, x) : b(x);
    });
  };
  check_alike(run(false), run(true));
  CHECK(disk.written_bytes() > 0);
}

TEST_CASE("every activation goes to the file once and comes back once") {
  constexpr int kBlocks = 6;
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const Tensor x = rand({kUnit / 4}, {.requires_grad = true});
  const OffloadTraffic before = offload_traffic();
  const Tensor loss = sum(chain_of(kBlocks, x, disk));
  // Two of each block, and the results of all but the last two, which the program held so long.
  const int64_t expected = (2 * kBlocks + kBlocks - 2) * kUnit;
  CHECK(offload_traffic() - before == OffloadTraffic{.to_disk = expected});
  loss.backward();
  CHECK(offload_traffic() - before == OffloadTraffic{.to_disk = expected, .from_disk = expected});
  CHECK(disk.written_bytes() == expected);
  CHECK(disk.read_bytes() == expected);
}

TEST_CASE("memory holds two blocks and what backward computes, however many blocks there are") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const auto live_and_peaks = [&](int blocks) {
    Ledger ledger;
    const LedgerScope scope(ledger);
    const Tensor x = rand({kUnit / 4}, {.requires_grad = true});
    const int64_t before = ledger.live();
    Tensor y = chain_of(blocks, x, disk);
    y = sum(y);
    const int64_t forward = ledger.peak() - before;
    ledger.reset_peak();
    y.backward();
    return std::pair{forward / kUnit, (ledger.peak() - before) / kUnit};
  };
  const auto [forward, backward] = live_and_peaks(6);
  // One block that is computed, with its input and the exponent's operand, and one that is written.
  CHECK(forward <= 3 + 1 + 3 + 1);
  // Two blocks with their results, and the gradients of tanh: g, y^2, 1 - y^2, their product.
  CHECK(backward <= 3 + 3 + 4);
  CHECK(live_and_peaks(20) == std::pair{forward, backward});
}

TEST_CASE("parameters, leaves and what the program holds stay where they are") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const Tensor w = randn({64, 64}, {.requires_grad = true});
  const Tensor x = randn({64, 64}, {.requires_grad = true});
  Tensor held;
  const auto f = [&](const Tensor& z) {
    const Tensor u = exp(z);
    if (!held.defined()) held = u;
    return matmul(u, w.t());
  };
  const OffloadTraffic before = offload_traffic();
  const Tensor y = offload({.disk = &disk}, f, x);
  CHECK(offload_traffic() == before);  // exp(x) and w
  const Tensor z = offload({.disk = &disk}, f, x);
  CHECK((offload_traffic() - before).to_disk == 64 * 64 * 4);  // its exp(x)
  CHECK(!held.array().storage().released());
  CHECK(!w.array().storage().released());
  sum(y + z).backward();
  const Tensor plain = grad(sum(matmul(exp(x), w.t()) * 2.0), w);
  CHECK(allclose(w.grad(), plain));
}

TEST_CASE("higher derivatives and retained graphs go through what was offloaded") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const Tensor x = tensor({0.5, -0.25}, {.dtype = kFloat64, .requires_grad = true});
  const auto f = [](const Tensor& z) { return exp(sin(z)) * z; };
  const auto thrice = [&](const auto& call) {
    const Tensor first = grad(sum(call(call(call(x)))), x, {.create_graph = true});
    const Tensor second = grad(sum(first), x, {.create_graph = true});
    return std::vector<Tensor>{first.detach(), second.detach(), grad(sum(second), x)};
  };
  const auto with = [&](const Tensor& z) { return offload({.disk = &disk}, f, z); };
  check_alike(thrice(f), thrice(with));
  CHECK(disk.used() == 0);

  const Tensor y = sum(with(with(with(x))));
  const int64_t written = offload_traffic().to_disk;
  y.backward({.retain_graph = true});
  const Tensor once = x.grad().clone();
  const int64_t used = disk.used(), read = disk.read_bytes();
  CHECK(used > 0);  // all of it is away again
  y.backward();
  CHECK(same_bytes(x.grad(), once * 2.0));
  CHECK(offload_traffic().to_disk == written);  // and was not written again
  CHECK(disk.read_bytes() == read + used);
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("ran through this graph before"));
  CHECK(disk.used() == 0);
}

TEST_CASE("what was offloaded comes back for whoever asks, and writing to it is seen") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const Tensor x = rand({100}, {.requires_grad = true});
  Tensor middle;
  const auto f = [&](const Tensor& z) {
    const Tensor u = exp(z);
    middle = u;
    return tanh(u * u);
  };
  const Tensor first = offload({.disk = &disk}, f, x);
  const Array kept = middle.array();
  const Array copy = kept.clone();
  middle = Tensor();
  {
    // Held as an array now: it stays until the array is all that a view of it is.
    const Tensor second = offload({.disk = &disk}, f, first);
    CHECK(!kept.storage().released());
  }
  CHECK(same_bytes(Tensor(kept), Tensor(copy)));
  {
    const NoGrad no_grad;
    Tensor(kept).zero_();
  }
  CHECK_THROWS_WITH(sum(first).backward(), ContainsSubstring("was changed in place"));
}

TEST_CASE("a graph that nobody walks gives its place in the file back, on any thread") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  Ledger ledger;
  const LedgerScope scope(ledger);
  Tensor x = rand({kUnit / 4}, {.requires_grad = true});
  Tensor y = chain_of(4, x, disk);
  CHECK(disk.used() > 0);
  const int64_t live = ledger.live();
  std::thread([last = std::exchange(y, Tensor())]() mutable { last = Tensor(); }).join();
  CHECK(disk.used() == 0);
  CHECK(ledger.live() < live);
  x = Tensor();
  CHECK(ledger.live() == 0);
}

TEST_CASE("a function that fails moves nothing, and the next call is as ever") {
  SwapFile disk(offload_folder(), {.bytes = int64_t{1} << 22});
  const Tensor x = rand({100}, {.requires_grad = true});
  const auto fails = [](const Tensor& z) {
    const Tensor u = three_saved(z);
    return matmul(u, ones({2, 2}));
  };
  const OffloadTraffic before = offload_traffic();
  CHECK_THROWS_WITH(offload({.disk = &disk}, fails, x), ContainsSubstring("matmul"));
  CHECK(offload_traffic() == before);
  const Tensor y = sum(offload({.disk = &disk}, three_saved, x));
  CHECK(same_bytes(grad(y, x), grad(sum(three_saved(x)), x)));
  CHECK((offload_traffic() - before).to_disk == 2 * SwapFile::kBlock);
  {
    const NoGrad no_grad;
    CHECK(same_bytes(offload({.disk = &disk}, three_saved, x), three_saved(x)));
  }
  CHECK((offload_traffic() - before).to_disk == 2 * SwapFile::kBlock);
}

TEST_CASE("a file that is too small says so, and what it did not take is in memory") {
  SwapFile disk(offload_folder(), {.bytes = 3 * kUnit});
  const Tensor x = rand({kUnit / 4}, {.requires_grad = true});
  const Tensor y = offload({.disk = &disk}, three_saved, x);
  CHECK(disk.used() == 2 * kUnit);
  CHECK_THROWS_WITH(offload({.disk = &disk}, three_saved, y),
                    ContainsSubstring("offload: 16.00 KiB that backward needs stay in memory") &&
                        ContainsSubstring("there is no room for"));
  CHECK(disk.used() == 2 * kUnit);
  CHECK(same_bytes(grad(sum(y), x), grad(sum(three_saved(x)), x)));
  CHECK(disk.used() == 0);
}

TEST_CASE("other bytes than were written, and a file that became short, are named errors") {
  const Tensor x = rand({kUnit / 4}, {.requires_grad = true});
  const Tensor plain = grad(sum(three_saved(three_saved(x))), x);
  for (const bool is_short : {false, true}) {
    SwapFile disk(offload_folder(), {.bytes = 16 * kUnit});
    const Tensor y = sum(chain_of(2, x, disk));
    // The first block was written before the second one went; the second one is read first.
    if (is_short) {
      REQUIRE(::ftruncate(disk.descriptor(), kUnit / 2) == 0);
    } else {
      flip_byte(disk, 7);
    }
    for (int again = 0; again < 2; ++again) {
      CHECK_THROWS_WITH(grad(y, x, {.retain_graph = true}),
                        ContainsSubstring("that backward needs are lost: swap file in ") &&
                            ContainsSubstring("; run forward again"));
    }
  }
  SwapFile disk(offload_folder(), {.bytes = 16 * kUnit});
  CHECK(same_bytes(grad(sum(chain_of(2, x, disk)), x), plain));
}

TEST_CASE("a write that fails is told when the next block goes, and memory has what it had") {
  SwapFile disk(offload_folder(), {.bytes = 16 * kUnit});
  const Tensor x = rand({kUnit / 4}, {.requires_grad = true});
  const Tensor plain = grad(sum(three_saved(x)), x);
  const int kept = ::dup(disk.descriptor());
  const int full = ::open("/dev/full", O_WRONLY);
  REQUIRE((kept >= 0 && full >= 0));
  REQUIRE(::dup2(full, disk.descriptor()) >= 0);
  const Tensor y = offload({.disk = &disk}, three_saved, x);
  for (int array = 0; array < 2; ++array) {
    CHECK_THROWS_WITH(offload({.disk = &disk}, three_saved, x),
                      ContainsSubstring("offload: 16.00 KiB that backward needs stay in memory") &&
                          ContainsSubstring("No space left on device"));
  }
  REQUIRE(::dup2(kept, disk.descriptor()) >= 0);
  ::close(kept);
  ::close(full);
  CHECK(same_bytes(grad(sum(y), x), plain));
  CHECK(same_bytes(grad(sum(offload({.disk = &disk}, three_saved, x)), x), plain));
  CHECK(disk.used() == 0);
}

TEST_CASE("the program of the page trains with what its blocks save on disk") {
  const std::string folder = offload_folder();
  const std::vector<OffloadedBlock> blocks(4);
  const Tensor x = randn({4, 8});
  // [snippet: activations]
  core::SwapFile disk(folder, {.bytes = int64_t{1} << 20});
  Tensor y = x;
  for (const auto& block : blocks) y = offload({.disk = &disk}, block, y);
  sum(square(y)).backward();
  // [end]
  CHECK(disk.read_bytes() > 0);
  for (const auto& block : blocks) CHECK(block.w.grad().defined());
}

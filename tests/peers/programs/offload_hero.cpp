// Hero's side of offload.py. Reads commands, a line each, and answers with a line:
//   step float32|bfloat16 N      ms of a step of AdamW over N parameters; bfloat16: parameters and
//                                gradients of two bytes, masters and moments in float32
//   swap FOLDER BYTES            ms to write so many bytes to a file past the page cache, and to
//   read
//                                them: two numbers
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <hero/core/swap_file.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

double milliseconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double median_of(int runs, const std::function<void()>& run) {
  run();  // makes the states
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(milliseconds(run));
  return median(times);
}

double step_ms(const std::string& dtype, int64_t n) {
  const DType kind = dtype == "bfloat16" ? kBFloat16 : kFloat32;
  const Tensor x(Array::full({n}, 0.5, kind), true);
  x.set_grad(Tensor(Array::full({n}, 1e-3, kind)));
  const optim::AdamWOptions options = {.lr = 1e-4};
  if (kind == kFloat32) {
    optim::AdamW adamw({x}, options);
    return median_of(7, [&] { adamw.step(); });
  }
  optim::MasterWeights<optim::AdamW> adamw({x}, options);
  return median_of(7, [&] { adamw.step(); });
}

std::pair<double, double> swap_ms(const std::string& folder, int64_t bytes) {
  core::SwapFile file(folder, {.bytes = bytes, .threads = 2});
  check(file.direct(), "offload: the file system of ", folder, " goes through the page cache");
  const core::Ref<core::Storage> storage = core::Storage::create(bytes, kCpu);
  std::fill_n(storage->data(), bytes, std::byte{1});
  core::Swapped swapped(file, storage);
  std::vector<double> writes, reads;
  for (int i = 0; i < 5; ++i) {
    writes.push_back(milliseconds([&] {
      swapped.begin_write();
      swapped.wait();
    }));
    reads.push_back(milliseconds([&] {
      swapped.begin_read();
      swapped.wait();
    }));
  }
  return {median(writes), median(reads)};
}

}  // namespace

int main() {
  std::string command, which;
  int64_t n = 0;
  while (std::cin >> command >> which >> n) {
    if (command == "step") std::cout << step_ms(which, n) << std::endl;
    if (command == "swap") {
      const auto [write, read] = swap_ms(which, n);
      std::cout << write << " " << read << std::endl;
    }
  }
}

// The programs of docs/guides/inference.md.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <span>
#include <thread>

#include "support/catch.h"
#include "support/temp_dir.h"

// [snippet: headers]
#include <hero/autograd/autograd.h>
#include <hero/core/thread_pool.h>
#include <hero/nn/nn.h>
// [end]

namespace {

using namespace hero;

// [snippet: classifier]
struct Classifier : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 784, 128);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 128, 10);
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

// A model that is loaded once and answers many requests.
class Server {
 public:
  explicit Server(const std::string& weights) {
    model_.load(weights);  // .safetensors, in float32, float16 or bfloat16
    model_.eval();         // dropout is off, batch norm takes its statistics
  }

  // The class of each image of 784 pixels.
  std::vector<int64_t> classes(std::span<float> pixels) {
    const NoGrad no_grad;  // nothing is recorded, so intermediate values are freed at once
    const Tensor images = from_blob(pixels, {static_cast<int64_t>(pixels.size()) / 784, 784});
    const Tensor answer = argmax(model_(images), 1);
    const std::span<const int64_t> numbers = answer.span<const int64_t>();
    return {numbers.begin(), numbers.end()};
  }

 private:
  Classifier model_;
};
// [end]

TEST_CASE("page inference: a classifier that is loaded once") {
  const hero_test::TempDir dir;
  manual_seed(1);
  Classifier trained;
  trained.save(dir / "weights.safetensors");
  Server server(dir / "weights.safetensors");
  const Tensor x = rand({5, 784});
  const std::vector<int64_t> expected = argmax(trained(x), 1).to_vector<int64_t>();
  CHECK(server.classes(x.span<float>()) == expected);

  // [snippet: threads]
  const ThreadLimit limit(1);  // each of the threads below has a core of its own
  std::vector<std::vector<int64_t>> answers(4);
  std::vector<std::thread> requests;
  for (auto& answer : answers) {
    requests.emplace_back([&] { answer = server.classes(x.span<float>()); });
  }
  for (std::thread& request : requests) request.join();
  // [end]
  for (const auto& answer : answers) CHECK(answer == expected);
}

// [snippet: generate]
// What a language model of a folder (or of a GGUF file) writes after a prompt of token numbers.
std::vector<int64_t> continued(const std::string& folder, std::span<const int64_t> prompt) {
  nn::Llama model = nn::Llama::from_pretrained(folder, {.dtype = kBFloat16});
  const Tensor text =
      model.generate(tensor(prompt), {.max_new_tokens = 20,
                                      .temperature = 0,  // the likeliest token each time
                                      .stop_tokens = model.config().token_ids.eos});
  return text.to_vector<int64_t>();  // the prompt and what follows it
}
// [end]

TEST_CASE("page inference: a folder that generates") {
  const std::string folder = HERO_GOLDEN_DIR "/hugging_face/llama";
  const std::vector<int64_t> prompt = {3, 1, 4, 1, 5};
  const std::vector<int64_t> text = continued(folder, prompt);
  REQUIRE(text.size() > prompt.size());
  CHECK(text.size() <= prompt.size() + 20);
  CHECK(std::equal(prompt.begin(), prompt.end(), text.begin()));
  CHECK(continued(folder, prompt) == text);
}

struct Latency {  // in milliseconds
  double first, median, slowest;
};

// The first call, and 200 further ones. A clock that no one sets measures them.
Latency latency(nn::Module& model, const Tensor& x) {
  const NoGrad no_grad;
  const auto call = [&] {
    const auto begin = std::chrono::steady_clock::now();
    model(x);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  const double first = call();
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(call());
  std::sort(times.begin(), times.end());
  return {first, times[times.size() / 2], times.back()};
}

// The most memory that this process has had so far, in MiB.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) / 1024;
  }
  return 0;
}

TEST_CASE("page inference: what a call takes") {
  manual_seed(1);
  Classifier model;
  model.eval();
  const Latency times = latency(model, rand({1, 784}));
  CHECK(times.first > 0);
  CHECK(times.median > 0);
  CHECK(times.slowest >= times.median);
  CHECK(peak_memory() > 0);
}

}  // namespace

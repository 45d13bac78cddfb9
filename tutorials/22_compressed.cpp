// Fewer bytes on the wire: Adam, 1-bit Adam and gradients in eight bits on the same link
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "support/lessons/compressed.h"
#include "support/lessons/data_parallel.h"
#include "support/lessons/language.h"
#include "support/options/device.h"

#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>

using hero::Tensor;
using hero::dist::Communicator;
using tutorial::Corpus, tutorial::RunCourse, tutorial::device, tutorial::everywhere, tutorial::say;
namespace dist = hero::dist;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

constexpr int64_t kRows = 8;  // samples of a rank in a step
// Pixels at the border are dark in nearly all images: the mean squares of their weights' gradients
// are tiny, and a sign of the common size over the root of one would be a huge step.
constexpr double kEps = 1e-4;

// Images to ten classes.
struct Clothes : nn::Module {
  nn::Linear& hidden = add<nn::Linear>("hidden", 784, 128);
  nn::Linear& out = add<nn::Linear>("out", 128, 10);
  Tensor forward(const Tensor& x) override { return out(relu(hidden(flatten(x, 1)))); }
};

// What is trained: a model, and its loss on a rank's part of a step's batch.
struct Task {
  const char* name;
  double rate;
  std::function<std::unique_ptr<nn::Module>()> make;
  std::function<Tensor(nn::Module& model, int64_t batch)> loss;
};

Task clothes(const nn::data::FashionMNIST& images) {
  return {"784-128-10 on Fashion-MNIST", 2e-3, [] { return std::make_unique<Clothes>(); },
          [&images](nn::Module& model, int64_t batch) {
            std::vector<int64_t> indices;
            for (int64_t i = 0; i < kRows; ++i) {
              indices.push_back((batch * kRows + i) % images.size());
            }
            const auto sample = images.get_batch(indices);
            return cross_entropy(model(sample[0].to(device())), sample[1].to(device()));
          }};
}

Task language(const Corpus& corpus) {
  const nn::GPTConfig config = {.vocab_size = corpus.tokenizer->vocab_size(),
                                .block_size = 32,
                                .n_layer = 2,
                                .n_head = 4,
                                .n_embd = 32};
  return {"a GPT on the King James text", 2e-3,
          [config] { return std::make_unique<nn::GPT>(config); },
          [&corpus](nn::Module& model, int64_t batch) {
            const auto sample = corpus.train.random_batch(kRows, 1, batch).to(device());
            return cross_entropy(flatten(model(sample[0]), 0, 1), flatten(sample[1]));
          }};
}

enum class Method { adam, int8, one_bit };

// DDP with an optimizer, in one of three ways.
struct Run {
  Run(const Task& task, Method how, const Communicator& world, int64_t steps)
      : method(how),
        model(task.make()),
        ddp(*model, world),
        warm_up(std::max<int64_t>(steps / 5, 1)) {
    // [snippet: methods]
    const std::vector<Tensor> parameters = model->parameters();
    if (method == Method::one_bit) {
      one_bit = std::make_unique<dist::OneBitAdam>(
          ddp, parameters,
          dist::OneBitAdamOptions{.lr = task.rate, .eps = kEps, .freeze_step = warm_up});
    } else {
      adam = std::make_unique<optim::Adam>(parameters,
                                           optim::AdamOptions{.lr = task.rate, .eps = kEps});
    }
    if (method == Method::int8)
      ddp.register_comm_hook(dist::CodecHook({.codec = dist::Codec::int8}));
    // [end]
  }
  optim::Optimizer& optimizer() {
    return one_bit ? static_cast<optim::Optimizer&>(*one_bit) : *adam;
  }

  Method method;
  std::unique_ptr<nn::Module> model;
  dist::DDP ddp;
  int64_t warm_up;
  std::unique_ptr<optim::Adam> adam = nullptr;
  std::unique_ptr<dist::OneBitAdam> one_bit = nullptr;
};

const char* name_of(Method method) {
  constexpr const char* names[] = {"Adam", "int8 gradients", "1-bit Adam"};
  return names[static_cast<int>(method)];
}

// [snippet: formulas]
// Bytes that this rank sends in a step after the warm-up.
int64_t bytes_of_step(const Communicator& world, const Run& run) {
  const int64_t others = world.size() - 1;
  int64_t bytes = 0, elements = 0;
  for (const dist::UnitInfo& bucket : run.ddp.units()) {
    const int64_t n = bucket.flat_numel;
    const int64_t row = hero::core::row_elements(dist::Codec::int8, n, world.size());
    elements += bucket.numel;
    bytes += run.method == Method::int8
                 ? 2 * others * hero::core::encoded_bytes(dist::Codec::int8, row)
                 : tutorial::reduce_scatter_bytes(world, n) + tutorial::all_gather_bytes(world, n);
  }
  if (run.method != Method::one_bit) return bytes;
  const int64_t row = hero::core::row_elements(dist::Codec::sign1, elements, world.size());
  return 2 * others * hero::core::encoded_bytes(dist::Codec::sign1, row) + 8 * others;
}
// [end]

// A loss for the figure. Those of the steps are of other samples in each, and as noisy as these
// are; here the samples are the same each time, far behind those of the steps.
double loss_to_draw(const Communicator& world, const Task& task, nn::Module& model) {
  constexpr int64_t kFirst = 7000, kBatches = 2;
  const hero::NoGrad no_grad;
  double sum = 0.0;
  for (int64_t i = 0; i < kBatches; ++i) {
    sum += task.loss(model, kFirst + i * world.size() + world.rank()).item();
  }
  return sum / static_cast<double>(kBatches);
}

// What a run left: the mean losses of its steps, what it had sent and how long it had taken by
// then.
RunCourse train(const Communicator& world, const Task& task, Method method, int64_t steps) {
  constexpr int64_t kApart = 2;  // steps from one loss that is drawn to the next
  hero::manual_seed(1);
  Run run(task, method, world, steps);
  RunCourse course{name_of(method)};
  std::vector<double> losses, drawn;
  world.traffic().reset();
  int64_t before = 0;
  auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor loss = task.loss(*run.model, step * world.size() + world.rank());
    loss.backward();
    run.optimizer().step();
    run.optimizer().zero_grad();
    const int64_t sent = world.traffic().bytes();
    losses.push_back(loss.item());
    course.bytes.push_back(static_cast<double>(sent));
    const auto end = std::chrono::steady_clock::now();
    course.seconds.push_back(std::chrono::duration<double>(end - begin).count());
    course.last = sent - std::exchange(before, sent);
    if ((step + 1) % kApart == 0 || step == steps - 1) {
      drawn.push_back(loss_to_draw(world, task, *run.model));
      course.drawn_after.push_back(static_cast<size_t>(step));
      begin += std::chrono::steady_clock::now() - end;  // it is no part of the run
    }
  }
  course.formula = bytes_of_step(world, run);
  course.as_said = everywhere(world, course.last == course.formula);
  course.losses = tutorial::mean_losses(world, losses);
  course.drawn = tutorial::mean_losses(world, drawn);
  course.same = tutorial::same_everywhere(world, tutorial::bits_of(run.model->parameters()));
  return course;
}

void compare(const Communicator& world, const Task& task, const tutorial::RankOptions& options,
             const std::string& figure) {
  int64_t parameters = 0;
  for (const Tensor& p : task.make()->parameters()) parameters += p.numel();
  say(world, "%s: %lld parameters, %lld steps\n", task.name, static_cast<long long>(parameters),
      static_cast<long long>(options.steps));
  std::vector<RunCourse> courses;
  for (const Method method : {Method::adam, Method::int8, Method::one_bit}) {
    courses.push_back(train(world, task, method, options.steps));
  }
  tutorial::show_runs(world, courses, options.link);
  if (world.rank() == 0) tutorial::draw_runs(courses, options, figure);
}

}  // namespace

int main(int argc, char** argv) {
  return tutorial::run_ranks(
      argc, argv,
      {.title = "Adam, int8 gradients and 1-bit Adam: loss by bytes and by time.",
       .ranks = 4,
       .steps = 200},
      [](Communicator& world, const tutorial::RankOptions& options) {
        if (world.rank() == 0) tutorial::draw_feedback(options.out);
        const nn::data::FashionMNIST images;
        compare(world, clothes(images), options, "22_compressed_clothes");
        say(world, "\n");
        const Corpus corpus =
            tutorial::king_james_corpus({.characters = 200'000, .block = 32, .silent = true});
        compare(world, language(corpus), options, "22_compressed_gpt");
      });
}

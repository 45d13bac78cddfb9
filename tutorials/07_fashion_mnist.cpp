// Fashion-MNIST: the slides' network, every optimizer of the series on it, and a small CNN
#include <cmath>
#include <cstdio>
#include <memory>

#include "support/lessons/fashion.h"
#include "support/options/command.h"
#include "support/options/device.h"
#include "support/options/page.h"
#include "support/options/trace.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using tutorial::draw_losses, tutorial::draw_predictions;
using tutorial::Fashion, tutorial::FashionOptions, tutorial::Training;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

constexpr const char* kLine = "-------------------------------";

// [snippet: network]
struct NeuralNetwork : nn::Module {
  nn::Flatten& flatten = add<nn::Flatten>("flatten");
  nn::Sequential& linear_relu_stack = add<nn::Sequential>(
      "linear_relu_stack", nn::Sequential{nn::Linear(28 * 28, 512), nn::ReLU(),
                                          nn::Linear(512, 512), nn::ReLU(), nn::Linear(512, 10)});

  Tensor forward(const Tensor& x) override { return linear_relu_stack(flatten(x)); }
};
// [end]

// [snippet: convolutions]
struct ConvNetwork : nn::Module {
  nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", 1, 32, 3, nn::Conv2dOptions{.padding = 1});
  nn::Conv2d& conv2 = add<nn::Conv2d>("conv2", 32, 64, 3, nn::Conv2dOptions{.padding = 1});
  nn::Linear& fc1 = add<nn::Linear>("fc1", 64 * 7 * 7, 128);
  nn::Dropout& dropout = add<nn::Dropout>("dropout", 0.25);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 128, 10);

  Tensor forward(const Tensor& images) override {
    Tensor x = max_pool2d(relu(conv1(images)), {2, 2});
    x = max_pool2d(relu(conv2(x)), {2, 2});
    return fc2(dropout(relu(fc1(hero::flatten(x, 1)))));
  }
};
// [end]

// [snippet: test]
tutorial::Score test(nn::Module& model, const Fashion& data) {
  const hero::NoGrad no_grad;
  model.eval();
  nn::data::DataLoader loader(data.test, {.batch_size = 500, .device = tutorial::device()});
  double loss = 0.0;
  int64_t correct = 0;
  for (const auto& [x, y] : loader) {
    const Tensor logits = model(x);
    loss += cross_entropy(logits, y).item() / static_cast<double>(loader.size());
    correct += sum(argmax(logits, 1) == y).item<int64_t>();
  }
  model.train();
  return {100.0 * static_cast<double>(correct) / static_cast<double>(data.test->size()), loss};
}
// [end]

// [snippet: step]
// One step on a batch of images and the numbers of their classes; returns the loss.
double take_step(nn::Module& model, optim::Optimizer& optimizer, const nn::data::Example& batch) {
  optimizer.zero_grad();                                         // forget the old gradients
  const Tensor loss = cross_entropy(model(batch[0]), batch[1]);  // how wrong is the network?
  loss.backward();                                               // the gradient of each parameter
  optimizer.step();                                              // a step against it
  return loss.item();
}
// [end]

// Trains to the end of the epochs, or until Ctrl-C; returns the exit code.
// [snippet: train]
int train(Training& t, const Fashion& data, const FashionOptions& options) {
  nn::data::DataLoader loader(
      data.train,
      {.batch_size = 64, .shuffle = t.shuffle, .seed = 1, .device = tutorial::device()});
  tutorial::Keeper keeper(t, loader, options);  // of checkpoints and metrics, where --run is given
  const int64_t size = data.train->size(), steps = t.epochs * loader.size();
  const nn::StopSignal stop;
  const auto style = options.silent ? nn::ProgressStyle::silent : nn::ProgressStyle::automatic;
  nn::Progress progress({.total = steps,
                         .start = t.step,
                         .style = style,
                         .every = loader.size(),
                         .unit = "image",
                         .per_step = 64});
  while (t.step < steps) {
    const int64_t epoch = t.step / loader.size();
    if (t.step % loader.size() == 0) loader.set_epoch(epoch);
    if (t.show_every > 0) std::printf("Epoch %lld\n%s\n", epoch + 1LL, kLine);
    for (const nn::data::Example& batch : loader) {
      const double loss = take_step(t.model, t.optimizer, batch);
      hero::check(std::isfinite(loss), "step ", t.step + 1, ": the loss is ", loss,
                  "; take a smaller learning rate");
      if (t.schedule != nullptr) t.schedule->step();
      const int64_t number = t.step++ % loader.size();
      progress.update(t.step, {{"loss", loss}, {"lr", t.optimizer.lr()}});
      if (t.show_every > 0 && number % t.show_every == 0) {
        progress.clear();
        std::printf("loss: %f  [%5lld/%5lld]\n", loss, (number + 1LL) * 64, size + 0LL);
      }
      keeper.note(loss);
      if (stop.requested()) return keeper.stopped(stop.exit_code());
    }
    progress.clear();
    keeper.end_epoch(test(t.model, data));
  }
  return 0;
}
// [end]

// [snippet: slides]
int slides(const Fashion& data, const FashionOptions& options) {
  hero::manual_seed(1);
  NeuralNetwork model;
  optim::SGD sgd(model.parameters(), {.lr = 1e-3});
  Training training{.model = model,
                    .optimizer = sgd,
                    .epochs = options.epochs.value_or(options.quick ? 1 : 5),
                    .show_every = options.quick ? 10 : 100};
  if (const int code = train(training, data, options); code != 0) return code;
  // [end]
  draw_losses("The slides' run: SGD with lr = 0.001", {{"", training.losses}}, options.out,
              "07_fashion_mnist_slides");
  return 0;
}

// [snippet: optimizers]
using Optimizer = std::unique_ptr<optim::Optimizer>;
struct Racer {
  const char* name;
  double lr;
  Optimizer (*make)(const std::vector<Tensor>& parameters, double lr);
};
const std::vector<Racer> kRacers = {
    {"SGD", 0.1,
     [](auto& p, double lr) -> Optimizer {
       return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = lr});
     }},
    {"Momentum", 0.02,
     [](auto& p, double lr) -> Optimizer {
       return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = lr, .momentum = 0.9});
     }},
    {"Nesterov", 0.02,
     [](auto& p, double lr) -> Optimizer {
       return std::make_unique<optim::SGD>(
           p, optim::SGDOptions{.lr = lr, .momentum = 0.9, .nesterov = true});
     }},
    {"Adagrad", 0.01,
     [](auto& p, double lr) -> Optimizer {
       return std::make_unique<optim::Adagrad>(p, optim::AdagradOptions{.lr = lr});
     }},
    {"RMSprop", 0.001,
     [](auto& p, double lr) -> Optimizer {
       return std::make_unique<optim::RMSprop>(p, optim::RMSpropOptions{.lr = lr});
     }},
    {"Adam", 0.001,
     [](auto& p, double lr) -> Optimizer {
       return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = lr});
     }},
    {"AdamW", 0.001,
     [](auto& p, double lr) -> Optimizer {
       return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = lr});
     }},
};
// [end]

// The same initial values and the same batches for all.
int race(const Fashion& data, const FashionOptions& options) {
  FashionOptions not_kept = options;
  not_kept.run.clear();
  const int64_t epochs = options.quick ? 1 : 2;
  std::printf("All optimizers, %lld images each\n%s\n", epochs * data.train->size() + 0LL, kLine);
  std::printf("optimizer     lr  training loss  test loss  test accuracy\n");
  std::vector<tutorial::Curve> curves;
  for (const Racer& racer : kRacers) {
    hero::manual_seed(1);
    NeuralNetwork model;
    const Optimizer optimizer = racer.make(model.parameters(), racer.lr);
    Training training{.model = model, .optimizer = *optimizer, .epochs = epochs, .shuffle = true};
    if (const int code = train(training, data, not_kept); code != 0) return code;
    std::printf("%-9s %6g %14.4f %10.4f %13.1f%%\n", racer.name, racer.lr, training.last_loss(),
                training.score.loss, training.score.accuracy);
    std::fflush(stdout);
    curves.push_back({racer.name, training.losses});
    if (&racer == &kRacers.back()) draw_predictions(model, data, options.out);
  }
  draw_losses("All optimizers", curves, options.out, "07_fashion_mnist_optimizers");
  return 0;
}

// [snippet: cnn]
int cnn(const Fashion& data, const FashionOptions& options) {
  hero::manual_seed(1);
  ConvNetwork model;
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  const int64_t epochs = options.epochs.value_or(options.quick ? 1 : 3);
  const int64_t steps = epochs * ((data.train->size() + 63) / 64);
  optim::Schedule schedule(adamw, optim::OneCycleLR{.max_lr = 3e-3, .total_steps = steps + 1});
  Training training{.model = model,
                    .optimizer = adamw,
                    .schedule = &schedule,
                    .epochs = epochs,
                    .shuffle = true,
                    .show_every = options.quick ? 10 : 100};
  if (const int code = train(training, data, options); code != 0) return code;
  // [end]
  draw_losses("A small convolutional network", {{"", training.losses}}, options.out,
              "07_fashion_mnist_cnn");
  draw_predictions(model, data, options.out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  FashionOptions options;
  tutorial::Command command(
      "Fashion-MNIST: a network, all optimizers, and a convolutional network.");
  command.flag("--quick", options.quick, "a part of the images: seconds")
      .flag("--cnn", options.cnn, "train the convolutional network instead")
      .count("--epochs", options.epochs, "passes over the images")
      .count("--images", options.images, "only so many, to train and to test")
      .text("--run", options.run, "folder for checkpoints and metrics; none: nothing is kept")
      .flag("--resume", options.resume, "resume from the newest checkpoint of --run")
      .flag("--silent", options.silent, "no line of progress")
      .out(options.out)
      .device(options.device);
  tutorial::TraceOptions trace;
  tutorial::add_trace(command, trace);
  std::string report;
  tutorial::add_report(command, report);
  const auto run = [&] {
    hero::check(!options.resume || !options.run.empty(),
                "--resume: name the run's folder with --run");
    const tutorial::OnDevice device(options.device);
    command.make_out();
    const Fashion data = tutorial::load_fashion(options);
    std::printf("Fashion-MNIST: %lld images to train, %lld to test\n\n", data.train->size() + 0LL,
                data.test->size() + 0LL);
    if (options.cnn) return cnn(data, options);
    const int code = slides(data, options);
    return code != 0 ? code : race(data, options);
  };
  return command.run(argc, argv, [&] {
    return tutorial::traced(trace, options.device,
                            [&] { return tutorial::reported(report, "FashionMNIST", run); });
  });
}

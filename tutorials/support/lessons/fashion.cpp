#include "support/lessons/fashion.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "support/options/device.h"
#include "support/options/page.h"
#include "support/pictures/pictures.h"

#include <hero/autograd/autograd.h>

namespace tutorial {

namespace {

namespace nn = hero::nn;
using nn::data::AnyDataset, nn::data::FashionMNIST, nn::data::Subset;

constexpr int64_t kQuickTrain = 3200, kQuickTest = 1000;
constexpr int64_t kSaveEvery = 200;  // steps
constexpr int64_t kNoteEvery = 10;

AnyDataset first_of(const AnyDataset& dataset, int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return Subset(dataset, indices);
}

thread_local int runs_on_page = 0;

// Steps in a mean: a twentieth of all.
size_t window(const Values& losses) { return std::max<size_t>(1, losses.size() / 20); }

double mean_of(const Values& values, size_t begin, size_t end) {
  const auto at = [&](size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  return std::accumulate(at(begin), at(end), 0.0) / static_cast<double>(end - begin);
}

}  // namespace

Fashion load_fashion(const FashionOptions& options) {
  const FashionMNIST train, test({.train = false});
  const auto count = [&](const AnyDataset& all, int64_t quick) {
    const int64_t wanted = options.images.value_or(options.quick ? quick : all->size());
    return wanted < all->size() ? first_of(all, wanted) : all;
  };
  return {count(train, kQuickTrain), count(test, kQuickTest), train.classes()};
}

double Training::last_loss() const {
  return mean_of(losses, losses.size() - window(losses), losses.size());
}

Keeper::Keeper(Training& t, nn::data::DataLoader& loader, const FashionOptions& options) : t_(t) {
  if (page()) {
    run_ = "run " + std::to_string(++runs_on_page);
    page()->configure(run_, t.model.type_name() + ", " + std::to_string(t.model.parameter_count()) +
                                " parameters, " + std::to_string(t.epochs) + " epochs");
  }
  if (options.run.empty()) return;
  checkpoint_.emplace(options.run);
  checkpoint_->track("model", t.model);
  checkpoint_->track("optimizer", t.optimizer);
  if (t.schedule != nullptr) checkpoint_->track("schedule", *t.schedule);
  checkpoint_->track("loader", loader);
  const auto which = options.resume ? nn::Resume::newest : nn::Resume::no;
  const std::optional<int64_t> step = checkpoint_->resume(which);
  if (step) std::fprintf(stderr, "going on after step %lld\n", *step + 0LL);
  t.step = step.value_or(0);
  nn::MetricsOptions metrics;
  if (options.resume) metrics.resumed_step = t.step;
  metrics_.emplace(options.run, metrics);
}

void Keeper::note(double loss) {
  t_.losses.push_back(loss);
  if (metrics_ && t_.step % kNoteEvery == 0) {
    metrics_->write(t_.step, {{"train/loss", loss}, {"train/lr", t_.optimizer.lr()}});
  }
  note_step(run_, {{"loss", loss}, {"rate", t_.optimizer.lr()}});
  if (checkpoint_ && t_.step % kSaveEvery == 0) checkpoint_->save(t_.step);
}

void Keeper::end_epoch(const Score& score) {
  t_.score = score;
  if (metrics_) {
    metrics_->write(t_.step, {{"test/accuracy", score.accuracy}, {"test/loss", score.loss}});
  }
  note_more(run_ + ", test", {{"loss", score.loss}, {"accuracy, %", score.accuracy}});
  if (checkpoint_) checkpoint_->save(t_.step);
  if (t_.show_every == 0) return;
  std::printf("Test Error: \n Accuracy: %.1f%%, Avg loss: %f \n\n", score.accuracy, score.loss);
  std::fflush(stdout);
}

int Keeper::stopped(int code) {
  std::fflush(stdout);
  if (checkpoint_) {
    checkpoint_->save(t_.step);
    std::fprintf(stderr, "saved after step %lld; go on with --resume\n", t_.step + 0LL);
  } else {
    std::fprintf(stderr, "stopped after step %lld; nothing is saved\n", t_.step + 0LL);
  }
  return code;
}

namespace {

// The means of `mean` losses each that end at `stride` steps apart, up to step `last`.
void draw_means(Figure& figure, const Curve& curve, const std::string& label, size_t mean,
                size_t stride, size_t last) {
  Values x, y;
  for (size_t end = mean; end <= last; end += stride) {
    x.push_back(static_cast<double>(end));
    y.push_back(mean_of(curve.losses, end - mean, end));
  }
  figure.line(label, x, y, 1.6);
}

}  // namespace

void draw_losses(const std::string& title, const std::vector<Curve>& curves,
                 const std::string& folder, const std::string& name) {
  constexpr size_t kFirst = 400, kFirstMean = 10;
  Figure figure(title, "step", "loss, running mean"), first("the first 400 steps", "step", "loss");
  bool long_enough = curves.size() > 1;  // several curves part early
  const size_t last = curves.front().losses.size(), every = last > 2500 ? 1000 : 500;
  std::vector<Tick> ticks;  // as many as have room
  for (size_t step = 0; step <= last; step += every) {
    ticks.push_back({static_cast<double>(step), std::to_string(step)});
  }
  if (last > every) figure.x_ticks(ticks);
  for (const Curve& curve : curves) {
    const size_t steps = curve.losses.size();
    if (steps == 0) return;  // the run had come to its end before
    draw_means(figure, curve, curve.name, window(curve.losses), std::max<size_t>(1, steps / 500),
               steps);
    long_enough = long_enough && steps >= 3 * kFirst;
    if (long_enough) draw_means(first, curve, "", kFirstMean, 2, kFirst);
  }
  if (long_enough) figure.below(first);
  figure.save(folder, name);
}

void draw_predictions(nn::Module& model, const Fashion& data, const std::string& folder) {
  constexpr int kColumns = 4;
  const auto count = static_cast<size_t>(std::min<int64_t>(32, data.test->size()));
  const hero::NoGrad no_grad;
  model.eval();
  std::vector<int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  const auto [images, labels] = data.test->get_batch(indices);
  const auto predicted = argmax(model(images.to(device())), 1).to_vector<int64_t>();
  const auto wanted = labels.to_vector<int64_t>();
  const auto pixels = images.to_vector<float>();
  const size_t each = pixels.size() / count;
  std::vector<Picture> pictures;
  for (size_t i = 0; i < count; ++i) {
    Picture picture;
    for (size_t k = i * each; k < (i + 1) * each; ++k) {
      picture.pixels.push_back(static_cast<uint8_t>(pixels[k] * 255.0f));
    }
    picture.good = predicted[i] == wanted[i];
    picture.text = data.classes.at(static_cast<size_t>(predicted[i]));
    const std::string correction =
        picture.good ? "" : "not " + data.classes.at(static_cast<size_t>(wanted[i]));
    const std::string comma = picture.good ? "" : ", ";
    if (page()) page()->image(picture.text + comma + correction, images[static_cast<int64_t>(i)]);
    if (!picture.good) picture.text += ",\n" + correction;
    pictures.push_back(picture);
  }
  draw_pictures("What the network takes them for", pictures, kColumns, folder,
                "07_fashion_mnist_images");
  model.train();
}

}  // namespace tutorial

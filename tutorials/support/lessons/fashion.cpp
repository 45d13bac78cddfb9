#include "support/lessons/fashion.h"

#include <algorithm>
#include <cmath>
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
constexpr size_t kFirst = 400, kFirstMean = 20;  // steps in a figure of how training begins

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

struct Line {
  std::string name;
  Values x, y;
};

// The means of `mean` losses each that end at `stride` steps apart, from step `first` to `last`.
Line means(const Curve& curve, size_t mean, size_t stride, size_t first, size_t last) {
  Line line{curve.name, {}, {}};
  for (size_t end = first; end <= last; end += stride) {
    line.x.push_back(static_cast<double>(end));
    line.y.push_back(mean_of(curve.losses, end - mean, end));
  }
  return line;
}

// Draws the lines up to their names, which stand at x = `right`, at least `apart` from one another.
// With a logarithmic axis that is a factor.
void draw_named(Figure& figure, const std::vector<Line>& lines, double right, double apart,
                bool logarithmic = false) {
  const auto scaled = [&](double y) { return logarithmic ? std::log(y) : y; };
  const auto end = [&](size_t i) { return scaled(lines[i].y.back()); };
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return end(a) < end(b); });
  Values at;
  for (const size_t i : order) at.push_back(end(i));
  for (int round = 0; round < 200; ++round) {
    for (size_t k = 1; k < at.size(); ++k) {
      const double missing = std::max(0.0, scaled(apart) - (at[k] - at[k - 1])) / 2.0;
      at[k - 1] -= missing, at[k] += missing;
    }
  }
  figure.patterned();
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto k = std::find(order.begin(), order.end(), i) - order.begin();
    const double y = at[static_cast<size_t>(k)], name_y = logarithmic ? std::exp(y) : y;
    Values x_to = lines[i].x, y_to = lines[i].y;
    x_to.push_back(right), y_to.push_back(name_y);
    figure.line("", x_to, y_to, 2.0);
    figure.tag(" " + lines[i].name, right, name_y, Align::left);
  }
}

// The first steps of several curves, and below them how far each lies below the first one.
void draw_side_by_side(const std::vector<Curve>& curves, const std::string& folder,
                       const std::string& name) {
  const size_t last = curves.front().losses.size(), mean = window(curves.front().losses);
  std::vector<Line> begins, below;
  for (const Curve& curve : curves) {
    begins.push_back(means(curve, kFirstMean, 2, kFirstMean, kFirst));
    Line line = means(curve, mean, 4, 2 * mean, last);
    if (!below.empty()) {
      for (size_t i = 0; i < line.y.size(); ++i) line.y[i] -= below.front().y[i];
    }
    below.push_back(line);
  }
  below.front().y.assign(below.front().y.size(), 0.0);
  Figure first("The first " + std::to_string(kFirst) + " steps", "step", "loss, running mean");
  first.log_y().y_ticks({{0.5, "0.5"}, {0.7, "0.7"}, {1, "1"}, {1.4, "1.4"}, {2, "2"}});
  first.x_range(0, 1.45 * kFirst)
      .y_range(0.35, 2.6)
      .x_ticks({{0, "0"}, {200, "200"}, {400, "400"}});
  draw_named(first, begins, 1.05 * kFirst, 1.11, true);
  const auto end = static_cast<double>(last);
  Figure whole("All steps: how far below " + curves.front().name, "step",
               "difference of the losses");
  whole.x_range(0, 1.45 * end).y_range(-0.24, 0.03).x_ticks({{0, "0"}, {1000, "1000"}});
  draw_named(whole, below, 1.05 * end, 0.015);
  first.below(whole).save(folder, name);
}

}  // namespace

void draw_losses(const std::string& title, const std::vector<Curve>& curves,
                 const std::string& folder, const std::string& name) {
  const size_t last = curves.front().losses.size(), every = last > 2500 ? 1000 : 500;
  for (const Curve& curve : curves) {
    if (curve.losses.empty()) return;  // the run had come to its end before
  }
  if (curves.size() > 1 && last >= 3 * kFirst) return draw_side_by_side(curves, folder, name);
  Figure figure(title, "step", "loss, running mean");
  std::vector<Tick> ticks;  // as many as have room
  for (size_t step = 0; step <= last; step += every) {
    ticks.push_back({static_cast<double>(step), std::to_string(step)});
  }
  if (last > every) figure.x_ticks(ticks);
  if (curves.size() > 1) figure.patterned();
  for (const Curve& curve : curves) {
    const size_t mean = window(curve.losses);
    const Line line = means(curve, mean, std::max<size_t>(1, last / 500), mean, last);
    figure.line(line.name, line.x, line.y, 1.6);
  }
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

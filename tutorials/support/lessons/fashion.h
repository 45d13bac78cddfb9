#pragma once
// Chapter 7: the images, and what is kept of a training run.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/pictures/plot.h"

#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace tutorial {

struct FashionOptions {
  bool quick = false, cnn = false, resume = false, silent = false;
  std::optional<int64_t> epochs, images;
  std::string run;              ///< folder of checkpoints and metrics, or none
  std::string out = "figures";  ///< folder for figures
  hero::Device device = hero::kCpu;
};

/// Images to train and to test on; few of them in a quick run, or as many as options.images.
struct Fashion {
  hero::nn::data::AnyDataset train, test;
  std::vector<std::string> classes;
};
Fashion load_fashion(const FashionOptions& options);

/// On the images to test on: how many per cent are right, and the mean loss.
struct Score {
  double accuracy = 0.0, loss = 0.0;
};

/// A network with its optimizer, and how far it is.
struct Training {
  hero::nn::Module& model;
  hero::optim::Optimizer& optimizer;
  hero::optim::Schedule* schedule = nullptr;
  int64_t epochs = 1;
  bool shuffle = false;
  int64_t show_every = 0;  ///< batches between two printed losses; 0: none is printed

  int64_t step = 0;
  Values losses = {};  ///< of each step of this process
  Score score = {};    ///< after the last epoch

  /// The mean over the last twentieth of the steps.
  double last_loss() const;
};

/// Saves checkpoints and writes metrics where options.run names a folder; takes notes, also for the
/// page of page.h.
class Keeper {
 public:
  /// Goes on from the newest checkpoint where that was asked for: sets t.step.
  Keeper(Training& t, hero::nn::data::DataLoader& loader, const FashionOptions& options);
  /// A step is done.
  void note(double loss);
  /// Prints the score as the slides do.
  void end_epoch(const Score& score);
  /// Ctrl-C: saves, says so, and returns the exit code.
  int stopped(int code);

 private:
  Training& t_;
  std::optional<hero::nn::Checkpointer> checkpoint_;
  std::optional<hero::nn::MetricsWriter> metrics_;
  std::string run_;  // its name on the page
};

struct Curve {
  std::string name;
  Values losses;
};
/// Running means of losses over the steps, as folder/name.png and .svg.
void draw_losses(const std::string& title, const std::vector<Curve>& curves,
                 const std::string& folder, const std::string& name);
/// The first images to test on with what the model takes them for.
void draw_predictions(hero::nn::Module& model, const Fashion& data, const std::string& folder);

}  // namespace tutorial

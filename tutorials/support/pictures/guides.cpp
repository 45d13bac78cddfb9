#include "support/pictures/guides.h"

#include <algorithm>
#include <cmath>

#include "support/pictures/plot.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/distributions_continuous.h>
#include <hero/nn/gpt.h>

namespace tutorial {

using hero::Tensor;

void draw_activations(const std::string& folder) {
  const hero::NoGrad no_grad;
  const Tensor x = hero::linspace(-4.0, 3.0, 141, {.dtype = hero::kFloat64});
  const Values at = x.to_vector<double>();
  Figure figure("Activations", "x", "");
  figure.patterned().legend_columns(3).height(640);
  const auto curve = [&](const char* name, const Tensor& y) {
    figure.line(name, at, y.to_vector<double>());
  };
  curve("relu", relu(x));
  curve("gelu", gelu(x));
  curve("silu", silu(x));
  curve("elu", elu(x));
  curve("softplus", softplus(x));
  curve("tanh", tanh(x));
  curve("sigmoid", sigmoid(x));
  figure.x_range(-4, 3).y_range(-1.2, 3).save(folder, "06a_activations");
}

namespace {

constexpr int kDraws = 4000, kBins = 75;

Tensor wide(double value) { return hero::full({}, value, {.dtype = hero::kFloat64}); }

// Draws over [low, high] as a histogram, and the density that log_prob() gives as a line.
class DrawnFigure {
 public:
  DrawnFigure(const std::string& title, double low, double high)
      : figure_(title, "x", "density"), low_(low), width_((high - low) / kBins) {
    figure_.x_range(low, high);
  }
  void add(const char* name, const char* colour, const hero::distributions::Distribution& from) {
    Values edges, counts(2 * kBins, 0.0);
    for (int bin = 0; bin < kBins; ++bin) {
      edges.insert(edges.end(), {low_ + bin * width_, low_ + (bin + 1) * width_});
    }
    for (const double value : from.sample({kDraws}).to_vector<double>()) {
      const auto bin = static_cast<int>(std::floor((value - low_) / width_));
      if (bin < 0 || bin >= kBins) continue;
      const auto left = 2 * static_cast<size_t>(bin);  // of the bin's two edges
      counts[left] += 1;
      counts[left + 1] += 1;
    }
    for (double& count : counts) count /= kDraws * width_;
    const Tensor x =
        hero::linspace(low_, low_ + kBins * width_, 20 * kBins + 1, {.dtype = hero::kFloat64});
    figure_.area("", edges, Values(edges.size(), 0.0), counts, colour);
    figure_.line(name, x.to_vector<double>(), exp(from.log_prob(x)).to_vector<double>());
  }
  Figure& figure() { return figure_; }

 private:
  Figure figure_;
  double low_, width_;
};

}  // namespace

void draw_distributions(const std::string& folder) {
  using namespace hero::distributions;
  const hero::NoGrad no_grad;
  hero::manual_seed(1);
  DrawnFigure first("4000 draws of each, and the densities exp(log\\_prob(x))", -4.0, 3.5);
  first.add("Normal(-1.5, 0.8)", "#f3c9a6", Normal(wide(-1.5), wide(0.8)));
  first.add("Normal(0.8, 0.3)", "#a9cfe8", Normal(wide(0.8), wide(0.3)));
  first.add("Uniform(2, 3)", "#a8dcc4", Uniform(wide(2.0), wide(3.0)));
  first.figure().y_range(0, 1.6).save(folder, "06a_distributions");
  DrawnFigure second("4000 draws of each, and the densities exp(log\\_prob(x))", -1.2, 6.3);
  second.add("tanh of Normal(-0.2, 0.9)", "#f3c9a6",
             TransformedDistribution(Normal(wide(-0.2), wide(0.9)), TanhTransform()));
  second.add("1 + 2 Beta(2, 4)", "#a9cfe8",
             TransformedDistribution(Beta(wide(2.0), wide(4.0)), AffineTransform(1.0, 2.0)));
  second.add("Gamma(30, 8)", "#a8dcc4", Gamma(wide(30.0), wide(8.0)));
  second.figure().y_range(0, 1.6).save(folder, "06a_draws");
}

void draw_sums(const std::string& folder) {
  constexpr int kFirst = 4, kLast = 20, kTries = 16;
  const hero::NoGrad no_grad;
  hero::manual_seed(1);
  Values terms, one_by_one, library;
  std::vector<Tick> ticks;
  for (int power = kFirst; power <= kLast; ++power) {
    double squares_one = 0.0, squares_library = 0.0;
    for (int i = 0; i < kTries; ++i) {
      const Tensor values = hero::rand({int64_t{1} << power});
      const double exact = sum(values.to(hero::kFloat64)).item();
      float running = 0.0f;
      for (const float value : values.to_vector<float>()) running += value;
      squares_one += std::pow(running / exact - 1.0, 2);
      squares_library += std::pow(sum(values).item() / exact - 1.0, 2);
    }
    terms.push_back(power);
    one_by_one.push_back(std::sqrt(squares_one / kTries));
    library.push_back(std::sqrt(squares_library / kTries));
    if (power % 4 == 0) ticks.push_back({1.0 * power, "2^{" + std::to_string(power) + "}"});
  }
  Figure figure("Relative error of a sum of float32 numbers between 0 and 1", "terms",
                "root mean square of 16 sums");
  figure.patterned()
      .line("one after the other", terms, one_by_one)
      .line("sum(): in a tree", terms, library);
  figure.rule(std::exp2(-24), "half a float32 step at 1");
  figure.x_range(kFirst, kLast).x_ticks(ticks).log_y().save(folder, "06a_sums");
}

void draw_convolution(const std::string& folder) {
  constexpr int64_t kSide = 6, kWindow = 3, kRow = 2, kColumn = 1;  // where the shown window lies
  const hero::NoGrad no_grad;
  const Tensor image = hero::zeros({1, 1, kSide, kSide}), window = hero::zeros({1, 1, 3, 3});
  image.slice(2, 1, kSide).slice(3, 3, kSide).fill_(1.0);  // bright from the fourth column on
  window.select(3, 0).fill_(-1.0);
  window.select(3, 2).fill_(1.0);
  Figure figure("A window of 3 x 3 weights slides over the image: each place gives one sum", "",
                "");
  const auto grid = [&](const Tensor& values, double x, const char* name, auto&& colour) {
    const int64_t side = values.size(3);
    const double top = static_cast<double>(side) / 2.0;
    const auto numbers = values.to_vector<float>();
    for (int64_t i = 0; i < side * side; ++i) {
      const auto number = static_cast<int>(numbers[static_cast<size_t>(i)]);
      const int64_t row = i / side, column = i % side;
      figure.box(x + static_cast<double>(column), top - static_cast<double>(row) - 1.0, 0.96, 0.96,
                 colour(row, column, number), std::to_string(number));
    }
    figure.label(name, x + top, -top - 0.5, "#333333");
  };
  const auto in_window = [](int64_t at, int64_t from) { return from <= at && at < from + kWindow; };
  grid(image, 0.0, "6 x 6 pixels", [&](int64_t row, int64_t column, int value) {
    if (in_window(row, kRow) && in_window(column, kColumn)) return value ? "#f0a860" : "#f9dcc0";
    return value ? "#b8c4d0" : "#eef1f4";
  });
  grid(window, 7.5, "3 x 3 weights", [](int64_t, int64_t, int) { return "#f4c08a"; });
  const Tensor sums = conv2d(image, window);
  grid(sums, 12.0, "4 x 4 sums", [](int64_t row, int64_t column, int value) {
    if (row == kRow && column == kColumn) return "#f0a860";
    return value ? "#8fce9f" : "#e4f3e8";
  });
  figure.label("×", 6.75, 0.0, "#333333").label("=", 11.25, 0.0, "#333333");
  figure.x_range(-0.2, 16.2).y_range(-4.2, 3.3).height(400).bare().save(folder, "06a_convolution");
}

void draw_modules(const std::string& folder) {
  constexpr const char *kInner = "#d0d7de", *kLeaf = "#a9cfe8", *kOwn = "#b5dcb8",
                       *kTied = "#f4c08a";
  const hero::nn::DeviceScope shapes_only(hero::kMeta);
  hero::nn::GPT model(
      {.vocab_size = 256, .block_size = 64, .n_layer = 1, .n_head = 4, .n_embd = 32});
  Figure figure("The modules of a GPT of one block, and the shapes of their parameters", "", "");
  const auto wide_of = [](const std::string& text) {
    return 0.235 * static_cast<double>(text.size()) + 0.8;
  };
  std::vector<std::pair<std::string, Tensor>> seen;
  double y = 0.0;
  for (const auto& [path, module] : model.named_modules()) {
    const auto depth = path.empty() ? 0 : 1 + std::count(path.begin(), path.end(), '.');
    const std::string name = path.empty() ? "model" : path.substr(path.rfind('.') + 1);
    figure.box(0.35 * static_cast<double>(depth), y - 0.95, wide_of(name + module->type_name()),
               0.9, module->children().empty() ? kLeaf : kInner,
               plain(name + ": " + module->type_name()));
    double x = 6.3;
    for (const auto& named : module->named_parameters()) {
      const std::string& parameter = named.first;
      const Tensor& value = named.second;
      if (parameter.find('.') != std::string::npos) continue;  // of a child
      const auto same = std::find_if(seen.begin(), seen.end(), [&](const auto& other) {
        return is_same(other.second, value);
      });
      const bool tied = same != seen.end();
      const double wide = tied || parameter == "weight" ? 3.4 : 2.2;
      figure.box(
          x, y - 0.95, wide, 0.9, tied ? kTied : kOwn,
          plain(parameter + (tied ? " of " + same->first : " " + hero::to_string(value.shape()))));
      if (!tied) seen.emplace_back(name, value);
      x += wide + 0.1;
    }
    y -= 1.0;
  }
  figure.x_range(0.0, 12.1).y_range(y, 0.1).height(760).bare().save(folder, "06a_modules");
}

}  // namespace tutorial

// Backpropagation: by hand, by an engine of eighty lines, and by the library
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/lessons/engine.h"
#include "support/options/device.h"
#include "support/options/program.h"
#include "support/pictures/backward.h"
#include "support/pictures/guides.h"

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>

using hero::Array, hero::Tensor;
using tutorial::backward, tutorial::leaf, tutorial::Values, tutorial::Var;

namespace {

double square(double x) { return x * x; }
using std::sqrt;

// [snippet: graph]
// A neuron and its loss. T is a number, a tensor, or a node of our own engine.
template <class T>
struct Neuron {
  T w, x, b;
  T p = w * x;
  T u = p + b;
  T s = square(u);
  T q = s + 1.0;
  T r = sqrt(q);
  T h = u / r;
  T e = h - 1.0;
  T loss = square(e);
};
// [end]

template <class T>
std::vector<T> nodes(const Neuron<T>& n) {
  return {n.w, n.x, n.b, n.p, n.u, n.s, n.q, n.r, n.h, n.e, n.loss};
}

// [snippet: by hand]
struct Gradients {
  double w, x, b, p, u, s, q, r, h, e, loss;
};
Gradients by_hand(const Neuron<double>& n) {
  Gradients d{};
  d.loss = 1.0;                  // how much the loss changes with the loss
  d.e = d.loss * (2 * n.e);      // loss = e^2
  d.h = d.e;                     // e = h - 1
  d.u = d.h / n.r;               // h = u / r, with respect to u
  d.r = -d.h / n.r * n.u / n.r;  //           and with respect to r
  d.q = d.r / (2 * n.r);         // r = sqrt(q)
  d.s = d.q;                     // q = s + 1
  d.u += d.s * (2 * n.u);        // s = u^2: the second use of u, whose gradient is added
  d.p = d.b = d.u;               // u = p + b
  d.w = d.p * n.x;               // p = w x
  d.x = d.p * n.w;
  return d;
}
// [end]

// [snippet: dual]
// Forward mode: a value with its derivative along one direction.
struct Dual {
  double value, slope;
};
Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
Dual operator+(const Dual& a, double c) { return {a.value + c, a.slope}; }
Dual operator-(const Dual& a, double c) { return {a.value - c, a.slope}; }
Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
Dual operator/(const Dual& a, const Dual& b) {
  return {a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value};
}
Dual square(const Dual& a) { return {a.value * a.value, 2 * a.value * a.slope}; }
Dual sqrt(const Dual& a) { return {std::sqrt(a.value), a.slope / (2 * std::sqrt(a.value))}; }
// [end]

hero::TensorOptions parameter() {
  return {.dtype = hero::kFloat64, .device = tutorial::device(), .requires_grad = true};
}
double largest_difference(const Array& a, const Array& b) {
  return amax(abs(Tensor(a) - Tensor(b))).item();
}
bool same_bits(const Array& a, const Array& b) { return largest_difference(a, b) == 0.0; }
const char* verdict(bool same) { return same ? "same" : "differs"; }

// [snippet: three ways]
std::vector<tutorial::GraphNode> three_ways(double w, double x, double b) {
  const Neuron<double> numbers{w, x, b};
  const Gradients d = by_hand(numbers);
  const std::vector<double> hand = {d.w, d.x, d.b, d.p, d.u, d.s, d.q, d.r, d.h, d.e, d.loss};

  const auto number = [](double v) { return leaf(hero::tensor(v, parameter()).array()); };
  const Neuron<Var> ours{number(w), number(x), number(b)};
  backward(ours.loss);

  const auto tensor = [](double v) { return hero::tensor(v, parameter()); };
  const Neuron<Tensor> library{tensor(w), tensor(x), tensor(b)};
  for (const Tensor& node : nodes(library)) node.retain_grad();  // else only leaves keep theirs
  library.loss.backward();
  // [end]
  std::printf(
      "# a neuron and its loss: gradients by hand, and whether the others have the same bits\n");
  std::printf("%-12s %-8s %-22s %-8s %s\n", "node", "value", "gradient by hand", "engine",
              "library");
  const std::vector<double> values = nodes(numbers);
  const std::vector<Var> vars = nodes(ours);
  const std::vector<Tensor> tensors = nodes(library);
  std::vector<tutorial::GraphNode> drawn;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = tutorial::kNeuron[i].name;
    std::printf("%-12s %-8.5g %-22s %-8s %s\n", name.c_str(), values[i],
                tutorial::repr(hand[i]).c_str(), verdict(vars[i]->grad.item() == hand[i]),
                verdict(tensors[i].grad().item() == hand[i]));
    drawn.push_back({values[i], hand[i]});
  }
  return drawn;
}

// [snippet: forward mode]
void forward_mode(double w, double x, double b) {
  std::printf("\n# forward mode: one run for each input\n");
  for (int input = 0; input < 3; ++input) {
    const auto seed = [&](int i) { return i == input ? 1.0 : 0.0; };
    const Neuron<Dual> n{{w, seed(0)}, {x, seed(1)}, {b, seed(2)}};
    std::printf("d loss / d %c = %.4f\n", "wxb"[input], n.loss.slope);
  }
}
// [end]

// [snippet: softmax]
Values softmax(const Values& logits, double subtracted) {
  Values p;
  double sum = 0.0;
  for (const double z : logits) p.push_back(std::exp(z - subtracted)), sum += p.back();
  for (double& v : p) v /= sum;
  return p;
}
double log_sum_exp(const Values& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const double z : logits) sum += std::exp(z - largest);
  return largest + std::log(sum);
}
// [end]

void print_row(const char* name, const Values& values) {
  std::printf("%-28s", name);
  for (const double v : values) std::printf(" %9.4f", std::isnan(v) ? std::fabs(v) : v);
  std::printf("\n");
}

void overflow() {
  std::printf("\n# softmax of large logits; the right class is the first\n");
  for (const Values& logits : {Values{1, 2, 3}, Values{1001, 1002, 1003}}) {
    const Values plain = softmax(logits, 0.0);
    const double largest = *std::max_element(logits.begin(), logits.end());
    print_row("logits", logits);
    print_row("softmax as it is written", plain);
    print_row("the largest logit subtracted", softmax(logits, largest));
    print_row("loss: -log of the first", {-std::log(plain[0])});
    print_row("loss: log-sum-exp", {log_sum_exp(logits) - logits[0]});
  }
}

// [snippet: pair]
void apart_and_together() {
  std::printf("\n# logits 0 and 800, the right class is the first\n");
  const Tensor z = hero::tensor({{0.0, 800.0}}, parameter());
  const Tensor apart = -log(softmax(z, 1)).select(1, 0).sum();
  apart.backward();
  print_row("loss apart", {apart.item()});
  print_row("gradient", z.grad().to_vector<double>());
  z.set_grad({});
  const Tensor together = cross_entropy(z, hero::zeros({1}, {hero::kInt64, z.device()}));
  together.backward();
  print_row("loss together", {together.item()});
  print_row("gradient", z.grad().to_vector<double>());
}
// [end]

// [snippet: layer by hand]
// x [B, in], weight [out, in], bias [out] and the number of the right class of each row.
struct LayerGradients {
  Values g, weight, bias, x;
};
LayerGradients layer_by_hand(const Tensor& x_, const Tensor& w_, const Tensor& b_,
                             const std::vector<int64_t>& right) {
  const auto x = x_.to_vector<double>(), w = w_.to_vector<double>(), b = b_.to_vector<double>();
  const size_t rows = right.size(), ins = x.size() / rows, outs = b.size();
  LayerGradients d{{}, Values(w.size()), Values(outs), Values(x.size())};
  for (size_t row = 0; row < rows; ++row) {
    Values z(outs);
    for (size_t o = 0; o < outs; ++o) {
      for (size_t i = 0; i < ins; ++i) z[o] += x[row * ins + i] * w[o * ins + i];
      z[o] += b[o];
    }
    const Values p = softmax(z, *std::max_element(z.begin(), z.end()));
    for (size_t o = 0; o < outs; ++o) {
      const double wanted = static_cast<size_t>(right[row]) == o ? 1.0 : 0.0;
      const double g = (p[o] - wanted) / static_cast<double>(rows);
      d.g.push_back(g);
      d.bias[o] += g;
      for (size_t i = 0; i < ins; ++i) {
        d.weight[o * ins + i] += g * x[row * ins + i];
        d.x[row * ins + i] += g * w[o * ins + i];
      }
    }
  }
  return d;
}
// [end]

std::string text_of(const hero::Shape& shape) {
  return "[" + std::to_string(shape[0]) +
         (shape.size() > 1 ? ", " + std::to_string(shape[1]) : std::string()) + "]";
}

void print_gradient(const char* formula, const Tensor& library, const Var& ours,
                    const Values& hand) {
  constexpr double kRounding = 1e-15;  // of sums of a few terms below 1
  const Array by_hand = Array::from(hand, library.shape()).to(library.device());
  hero::check(largest_difference(library.array(), by_hand) <= kRounding,
              "06a_backward: the library's ", formula, " is not the one by hand");
  std::printf("%-16s %-8s %8s   within %.0e\n", formula, text_of(library.shape()).c_str(),
              verdict(same_bits(library.array(), ours->grad)), kRounding);
}

void layer() {
  const Tensor x = hero::tensor(
      {{1.0, -2.0, 0.5, 3.0}, {0.0, 1.5, -1.0, 2.0}, {-1.0, 0.5, 2.0, 1.0}}, parameter());
  const Tensor weight = hero::tensor(
      {{0.5, 0.25, -0.5, 0.125}, {-0.25, 1.0, 0.75, -0.5}, {0.0, -0.5, 0.25, 0.5}}, parameter());
  const Tensor bias = hero::tensor({0.1, -0.2, 0.3}, parameter());
  const std::vector<int64_t> right = {2, 1, 0};
  const LayerGradients hand = layer_by_hand(x, weight, bias, right);

  const Tensor classes = hero::tensor(right, {.device = tutorial::device()});
  const Var ours_x = leaf(x.array()), ours_w = leaf(weight.array()), ours_b = leaf(bias.array());
  const Var ours_z = linear(ours_x, ours_w, ours_b);
  backward(softmax_cross_entropy(ours_z, one_hot(classes, 3).to(hero::kFloat64).array()));

  const Tensor z = linear(x, weight, bias);
  z.retain_grad();
  cross_entropy(z, classes).backward();

  std::printf("\n# a layer of 4 inputs and 3 outputs with softmax and cross entropy, 3 rows\n");
  std::printf("gradient         shape      engine   by hand\n");
  print_gradient("g = (p - y) / B", z.grad(), ours_z, hand.g);
  print_gradient("dW = g^T x", weight.grad(), ours_w, hand.weight);
  print_gradient("db = sum of g", bias.grad(), ours_b, hand.bias);
  print_gradient("dx = g W", x.grad(), ours_x, hand.x);
  for (int64_t row = 0; row < z.size(0); ++row) {
    print_row(("row " + std::to_string(row) + " of g").c_str(),
              z.grad().select(0, row).to_vector<double>());
  }
}

double loss_at(double w, double x, double b) { return Neuron<double>{w, x, b}.loss; }

void differences(double w, double x, double b, const std::string& out) {
  const double exact = by_hand({w, x, b}).w;
  Values steps, forward, central;
  for (int k = 2; k <= 48; ++k) {
    const double h = std::ldexp(1.0, -k);  // a power of two, so that w + h is not rounded much
    steps.push_back(h);
    forward.push_back(std::fabs((loss_at(w + h, x, b) - loss_at(w, x, b)) / h - exact));
    central.push_back(std::fabs((loss_at(w + h, x, b) - loss_at(w - h, x, b)) / (2 * h) - exact));
  }
  std::printf("\n# d loss / d w by finite differences: how far off\n");
  std::printf("step                forward   central\n");
  for (size_t i = 2; i < steps.size(); i += 4) {
    std::printf("2^-%-2zu = %.0e     %.1e   %.1e\n", i + 2, steps[i], forward[i], central[i]);
  }
  tutorial::draw_differences(steps, forward, central, out);
  // [snippet: gradcheck]
  const auto loss = [](const std::vector<Tensor>& in) {
    return Neuron<Tensor>{in[0], in[1], in[2]}.loss;
  };
  const auto at = [](double v) { return hero::tensor(v, parameter()); };
  const bool good = hero::gradcheck(hero::TensorFunction(loss), {at(w), at(x), at(b)});
  // [end]
  std::printf("gradcheck: %s\n", good ? "the gradients are right" : "the gradients are wrong");
}

// [snippet: kept]
// How many arrays of its inputs' size an operation keeps for backward.
int64_t kept(const std::function<Tensor(const Tensor& a, const Tensor& b)>& operation) {
  constexpr int64_t kElements = 1000;
  const auto type = tutorial::device().type;
  hero::Ledger ledger;
  const hero::LedgerScope scope(ledger);
  const Tensor x = hero::ones({kElements}, parameter());
  const int64_t before = ledger.live(type);
  // Nobody else holds what the operation reads and what it gives, and a sum keeps nothing.
  const Tensor loss = sum(operation(x * 2, x * 3));
  return (ledger.live(type) - before) / x.array().nbytes();
}
// [end]

void print_kept() {
  using Operation = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::vector<std::pair<const char*, Operation>> operations = {
      {"a + b", [](auto& a, auto& b) { return a + b; }},
      {"relu(a)", [](auto& a, auto&) { return relu(a); }},
      {"exp(a)", [](auto& a, auto&) { return exp(a); }},
      {"square(a)", [](auto& a, auto&) { return square(a); }},
      {"a * b", [](auto& a, auto& b) { return a * b; }},
      {"a / b", [](auto& a, auto& b) { return a / b; }},
      {"a * number", [](auto& a, auto&) { return a * 5; }},
      {"relu(a * b + a)", [](auto& a, auto& b) { return relu(a * b + a); }},
  };
  std::printf("\n# arrays kept for backward\n");
  for (const auto& [name, operation] : operations) {
    std::printf("%-16s %lld\n", name, kept(operation) + 0LL);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const tutorial::Program program{.title = "Backpropagation by hand, by an engine, by the library.",
                                  .coordinates = 3,
                                  .descends = false};
  return tutorial::run(argc, argv, program, [](const tutorial::Options& options) {
    const Values at = options.start.empty() ? Values{0.75, 2.0, -0.75} : options.start;
    const double w = at[0], x = at[1], b = at[2];
    tutorial::draw_graph(three_ways(w, x, b), options.out);
    forward_mode(w, x, b);
    overflow();
    apart_and_together();
    layer();
    differences(w, x, b, options.out);
    print_kept();
    tutorial::draw_activations(options.out);
    tutorial::draw_distributions(options.out);
    tutorial::draw_sums(options.out);
    tutorial::draw_convolution(options.out);
    tutorial::draw_modules(options.out);
  });
}

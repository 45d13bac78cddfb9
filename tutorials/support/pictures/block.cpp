#include "support/pictures/block.h"

#include <map>

#include "support/options/device.h"
#include "support/pictures/plot.h"

#include <hero/nn/nn.h>

namespace tutorial {

namespace nn = hero::nn;

namespace {

constexpr double kBranchHeight = 1.0, kBranchWidth = 0.86;  // of the branches above the stream

struct BranchPart {
  std::string name;    ///< of the module below the block, or what is done without one
  std::string inside;  ///< second line of its box
  std::string result;  ///< shape of what it gives
};

std::string tail(const std::string& path) {
  std::string text;
  for (const char c : path.substr(path.rfind('.') + 1)) {
    text += c == '_' ? std::string("\\_") : std::string(1, c);  // gnuplot's index
  }
  return text;
}

// What each module of a block gives for x, by its name.
std::map<std::string, std::string> results_of(nn::Block& block, const hero::Tensor& x) {
  std::map<std::string, std::string> results;
  std::vector<hero::HookHandle> hooks;
  for (const auto& [name, module] : block.named_modules()) {
    hooks.push_back(module->register_forward_hook(
        [&results, name = name](nn::Module&, const auto&, const auto& outputs) {
          results[name] = hero::to_string(outputs.front().shape());
        }));
  }
  const hero::NoGrad no_grad;
  block(x);
  for (hero::HookHandle& hook : hooks) hook.remove();
  return results;
}

void draw_branch(Figure& figure, const std::vector<BranchPart>& parts, double x,
                 const char* colour) {
  Values from_x = {x}, from_y = {0.1}, dx = {1.0 - kBranchWidth / 2}, dy = {kBranchHeight - 0.1};
  for (size_t i = 0; i < parts.size(); ++i) {
    const double at = x + 1.0 + static_cast<double>(i);
    figure.box(at - kBranchWidth / 2, kBranchHeight - 0.24, kBranchWidth, 0.48, colour);
    figure.label(tail(parts[i].name), at, kBranchHeight + 0.08, "#111111");
    figure.label(parts[i].inside, at, kBranchHeight - 0.1, "#444444");
    figure.label(parts[i].result, at, kBranchHeight + (i % 2 == 0 ? 0.34 : 0.48), "#0072b2");
    const bool last = i + 1 == parts.size();
    from_x.push_back(at + kBranchWidth / 2), from_y.push_back(kBranchHeight);
    dx.push_back(last ? 1.0 - kBranchWidth / 2 - 0.1 : 1.0 - kBranchWidth);
    dy.push_back(last ? -kBranchHeight + 0.16 : 0.0);
  }
  figure.arrows("", from_x, from_y, dx, dy);
}

}  // namespace

void draw_block(nn::GPT& model, int64_t rows, const std::string& folder) {
  const nn::GPTConfig& config = model.config();
  auto& block = dynamic_cast<nn::Block&>(model.get_submodule("transformer.h.0"));
  const hero::Tensor x =
      hero::zeros({rows, config.block_size, config.n_embd}, {.device = device()});
  const auto results = results_of(block, x);
  const auto layer = [&](const std::string& name) {
    const hero::Tensor weight = block.get_submodule(name).named_parameters().front().second;
    return BranchPart{name, hero::to_string(weight.shape()), results.at(name)};
  };
  const std::string heads = std::to_string(config.n_head) + " heads";
  const std::string stream = hero::to_string(x.shape());
  Figure figure("A block of the GPT: what it adds to the stream, and the shapes (blue)", "", "");
  draw_branch(
      figure,
      {layer("ln_1"), layer("attn.c_attn"), {"attention", heads, stream}, layer("attn.c_proj")},
      0.0, "#f4c08a");
  draw_branch(figure,
              {layer("ln_2"),
               layer("mlp.c_fc"),
               {"gelu", "x Φ(x)", results.at("mlp.c_fc")},
               layer("mlp.c_proj")},
              5.0, "#b5dcc0");
  figure.arrows("", {-0.6, 0.0, 5.1, 10.1}, {0, 0, 0, 0}, {0.6, 4.9, 4.8, 0.7}, {0, 0, 0, 0});
  for (const double plus : {5.0, 10.0}) figure.box(plus - 0.1, -0.13, 0.2, 0.26, "#dddddd", "+");
  for (const double at : {-0.3, 2.5, 7.5, 10.5}) figure.label(stream, at, -0.22, "#0072b2");
  figure.label("x", -0.75, 0.0, "#111111").label("y", 10.95, 0.0, "#111111");
  figure.label("the stream, which goes on unchanged", 2.5, 0.14, "#777777");
  figure.label("mixes positions: each looks at itself and those before it", 2.5,
               kBranchHeight + 0.62, "#111111");
  figure.label("works on each position alone", 7.5, kBranchHeight + 0.62, "#111111");
  figure.x_range(-1.0, 11.2).y_range(-0.5, 1.9).bare().save(folder, "08_gpt_block");
}

}  // namespace tutorial

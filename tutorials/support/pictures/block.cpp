#include "support/pictures/block.h"

#include <map>

#include "support/options/device.h"
#include "support/pictures/plot.h"

#include <hero/nn/nn.h>

namespace tutorial {

namespace nn = hero::nn;

namespace {

constexpr double kBranch = 2.3, kPartWidth = 2.4, kPartHeight = 0.6;  // beside the stream at x = 0

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

// From the stream at y downwards, and back to it.
void draw_branch(Figure& figure, const std::vector<BranchPart>& parts, double y,
                 const char* colour) {
  const double left = kBranch - kPartWidth / 2;
  Values from_x = {0.0}, from_y = {y - 0.1}, dx = {left}, dy = {-0.75};
  for (size_t i = 0; i < parts.size(); ++i) {
    const double at = y - 1.0 - static_cast<double>(i);
    figure.box(left, at - kPartHeight / 2, kPartWidth, kPartHeight, colour,
               tail(parts[i].name) + " " + parts[i].inside);
    figure.label(parts[i].result, left + kPartWidth + 0.1, at, "#0072b2", Align::left);
    const bool last = i + 1 == parts.size();
    from_x.push_back(last ? left : kBranch), from_y.push_back(at - (last ? 0.0 : kPartHeight / 2));
    dx.push_back(last ? 0.16 - left : 0.0);
    dy.push_back(last ? -0.95 : kPartHeight - 1.0);
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
  figure.label("mixes each position with those before it", 2.8, -0.4, "#111111");
  draw_branch(
      figure,
      {layer("ln_1"), layer("attn.c_attn"), {"attention", heads, stream}, layer("attn.c_proj")},
      0.0, "#f4c08a");
  figure.label("works on each position alone", 2.8, -5.5, "#111111");
  draw_branch(figure,
              {layer("ln_2"),
               layer("mlp.c_fc"),
               {"gelu", "x Φ(x)", results.at("mlp.c_fc")},
               layer("mlp.c_proj")},
              -5.1, "#b5dcc0");
  figure.arrows("", {0, 0, 0, 0}, {0.6, 0.0, -5.1, -10.2}, {0, 0, 0, 0}, {-0.6, -4.9, -4.9, -0.7});
  for (const double plus : {-5.05, -10.15}) {
    figure.box(-0.13, plus - 0.2, 0.26, 0.4, "#dddddd", "+");
  }
  figure.label("x " + stream + ": the stream goes on unchanged", -0.2, 0.85, "#777777",
               Align::left);
  figure.label("y " + stream, -0.2, -11.2, "#777777", Align::left);
  figure.x_range(-0.3, 5.6).y_range(-11.5, 1.2).height(860).bare().save(folder, "08_gpt_block");
}

}  // namespace tutorial

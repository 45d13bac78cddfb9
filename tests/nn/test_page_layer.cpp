// The layer of docs/extending/adding_a_layer.md, and what the page says that it can do.
#include <sstream>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/functions/gradcheck.h>
#include <hero/nn/dropout.h>
#include <hero/nn/linear.h>
#include <hero/optim/optim.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace pages {

// [snippet: layer]
struct SwiGLUOptions {
  double dropout = 0.0;
  double scale = 1.0;  ///< first value of the learned factor of each output
};

/// y = scale * down(silu(gate(x)) * up(x)): x [.., width] to [.., width]. Parameters: gate.weight
/// and up.weight [hidden, width], down.weight [width, hidden], scale [width]. Shazeer, arXiv
/// 2002.05202; the factor is that of Touvron et al., arXiv 2103.17239.
class SwiGLU : public nn::Module {
 public:
  using Options = SwiGLUOptions;  // add<SwiGLU>("mlp", 64, 128, {.dropout = 0.1})

  SwiGLU(int64_t width, int64_t hidden, const SwiGLUOptions& options = {})
      : gate(add<nn::Linear>("gate", width, hidden, {.bias = false})),
        up(add<nn::Linear>("up", width, hidden, {.bias = false})),
        down(add<nn::Linear>("down", hidden, width, {.bias = false})),
        dropout(add<nn::Dropout>("dropout", options.dropout)),
        scale(parameter("scale", {width}, nn::init::constant(options.scale))) {}

  Tensor forward(const Tensor& x) override {
    check(x.ndim() >= 1 && x.size(-1) == gate.in_features, "SwiGLU: expected [.., ",
          gate.in_features, "], got ", x.shape());
    return scale * dropout(down(silu(gate(x)) * up(x)));
  }
  std::string extra_repr() const override {
    return "width=" + std::to_string(gate.in_features) +
           ", hidden=" + std::to_string(gate.out_features);
  }

  nn::Linear &gate, &up, &down;
  nn::Dropout& dropout;
  Tensor& scale;
};
// [end]

struct Residual : nn::Module {
  SwiGLU& mlp = add<SwiGLU>("mlp", 6, 10, {.dropout = 0.5, .scale = 0.5});
  Tensor forward(const Tensor& x) override { return x + mlp(x); }
};

}  // namespace pages

using pages::Residual;
using pages::SwiGLU;

TEST_CASE("the layer of the page computes its formula, with names, options and modes") {
  manual_seed(3);
  Residual model;
  const Tensor x = randn({4, 6});
  const SwiGLU& mlp = model.mlp;
  std::vector<std::string> names;
  for (const auto& [name, p] : model.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"mlp.scale", "mlp.gate.weight", "mlp.up.weight",
                                          "mlp.down.weight"});
  const Tensor inside = silu(linear(x, mlp.gate.weight)) * linear(x, mlp.up.weight);
  model.eval();
  CHECK(equal(model(x), x + 0.5 * linear(inside, mlp.down.weight)));
  model.train();
  CHECK(sum(model(x) == x).item() > 0.0);  // where dropout left nothing
  CHECK_THROWS_WITH(model(randn({4, 5})),
                    ContainsSubstring("SwiGLU: expected [.., 6], got [4, 5], in mlp"));
  std::ostringstream text;
  text << model;
  CHECK_THAT(text.str(), ContainsSubstring("width=6, hidden=10"));
}

TEST_CASE("the layer of the page is differentiated, saved, and planned on meta") {
  manual_seed(3);
  SwiGLU layer(4, 6);
  layer.to(kFloat64);
  const Tensor x = randn({2, 4}, {.dtype = kFloat64, .requires_grad = true});
  const auto of_all = [&](const std::vector<Tensor>& in) {
    layer.gate.weight = in[1];  // gradcheck moves each element a little
    layer.scale = in[2];
    return layer(in[0]);
  };
  CHECK(gradcheck(of_all, {x, layer.gate.weight, layer.scale}));

  manual_seed(4);
  std::unique_ptr<SwiGLU> planned;
  {
    const nn::DeviceScope meta(kMeta);
    planned = std::make_unique<SwiGLU>(4, 6);
  }
  CHECK(planned->forward(zeros({2, 4}, {.device = kMeta})).shape() == Shape{2, 4});
  planned->materialize();
  manual_seed(4);
  const SwiGLU built(4, 6);
  CHECK(equal(planned->gate.weight, built.gate.weight));
  const hero_test::TempDir dir;
  built.save(dir / "swiglu.safetensors");
  SwiGLU other(4, 6);
  other.load(dir / "swiglu.safetensors");
  CHECK(equal(other.down.weight, built.down.weight));
}

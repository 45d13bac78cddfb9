#include "activations.h"

#include "plot.h"

#include <hero/autograd/autograd.h>

namespace tutorial {

void draw_activations(const std::string& folder) {
  using hero::Tensor;
  const hero::NoGrad no_grad;
  const Tensor x = hero::linspace(-4.0, 3.0, 141, {.dtype = hero::kFloat64});
  const Values at = x.to_vector<double>();
  Figure figure("Activations", "x", "");
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
  figure.x_range(-4, 3).y_range(-1.2, 3).legend("top left").save(folder, "07a_activations");
}

}  // namespace tutorial

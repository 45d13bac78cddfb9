// Makers of layers without windows.
#include "nn/golden/layer_cases.h"

#include <hero/nn/activation.h>
#include <hero/nn/bilinear.h>
#include <hero/nn/dropout.h>
#include <hero/nn/embedding.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/shape.h>

namespace hero::test {

namespace {

using I = int64_t;

Shape shape_of(const Json& value) {
  if (value.is_number()) return {value.get<I>()};
  Shape shape;
  for (const Json& size : value) shape.push_back(size.get<I>());
  return shape;
}

std::optional<double> optional(const Json& args, const char* name, std::optional<double> absent) {
  if (!args.contains(name)) return absent;
  if (args[name].is_null()) return std::nullopt;
  return args[name].get<double>();
}

template <class M>
Subject batch_norm(const Json& a, const Json&) {
  return layer<M>(a["num_features"].get<I>(),
                  nn::BatchNormOptions{.eps = get(a, "eps", 1e-5),
                                       .momentum = optional(a, "momentum", 0.1),
                                       .affine = get(a, "affine", true),
                                       .bias = get(a, "bias", true),
                                       .track_running_stats = get(a, "track_running_stats", true)});
}

template <class M>
Subject instance_norm(const Json& a, const Json&) {
  return layer<M>(
      a["num_features"].get<I>(),
      nn::InstanceNormOptions{.eps = get(a, "eps", 1e-5),
                              .momentum = optional(a, "momentum", 0.1),
                              .affine = get(a, "affine", false),
                              .bias = get(a, "bias", true),
                              .track_running_stats = get(a, "track_running_stats", false)});
}

void add_norms(Makers& m) {
  m["BatchNorm1d"] = batch_norm<nn::BatchNorm1d>;
  m["BatchNorm2d"] = batch_norm<nn::BatchNorm2d>;
  m["BatchNorm3d"] = batch_norm<nn::BatchNorm3d>;
  m["InstanceNorm1d"] = instance_norm<nn::InstanceNorm1d>;
  m["InstanceNorm2d"] = instance_norm<nn::InstanceNorm2d>;
  m["InstanceNorm3d"] = instance_norm<nn::InstanceNorm3d>;
  m["LocalResponseNorm"] = [](const Json& a, const Json&) {
    return layer<nn::LocalResponseNorm>(
        a["size"].get<I>(),
        nn::LocalResponseNormOptions{
            .alpha = get(a, "alpha", 1e-4), .beta = get(a, "beta", 0.75), .k = get(a, "k", 1.0)});
  };
  m["LayerNorm"] = [](const Json& a, const Json&) {
    return layer<nn::LayerNorm>(
        shape_of(a["normalized_shape"]),
        nn::LayerNormOptions{.eps = get(a, "eps", 1e-5),
                             .elementwise_affine = get(a, "elementwise_affine", true),
                             .bias = get(a, "bias", true)});
  };
  m["RMSNorm"] = [](const Json& a, const Json&) {
    return layer<nn::RMSNorm>(
        shape_of(a["normalized_shape"]),
        nn::RMSNormOptions{.eps = optional(a, "eps", {}),
                           .elementwise_affine = get(a, "elementwise_affine", true)});
  };
  m["GroupNorm"] = [](const Json& a, const Json&) {
    return layer<nn::GroupNorm>(a["num_groups"].get<I>(), a["num_channels"].get<I>(),
                                nn::GroupNormOptions{.eps = get(a, "eps", 1e-5),
                                                     .affine = get(a, "affine", true),
                                                     .bias = get(a, "bias", true)});
  };
}

template <class M>
Subject plain(const Json&, const Json&) {
  return layer<M>();
}

void add_plain_activations(Makers& m) {
  m["Identity"] = plain<nn::Identity>;
  m["ReLU"] = plain<nn::ReLU>;
  m["ReLU6"] = plain<nn::ReLU6>;
  m["SELU"] = plain<nn::SELU>;
  m["SiLU"] = plain<nn::SiLU>;
  m["Mish"] = plain<nn::Mish>;
  m["Sigmoid"] = plain<nn::Sigmoid>;
  m["LogSigmoid"] = plain<nn::LogSigmoid>;
  m["Hardsigmoid"] = plain<nn::Hardsigmoid>;
  m["Hardswish"] = plain<nn::Hardswish>;
  m["Tanh"] = plain<nn::Tanh>;
  m["Tanhshrink"] = plain<nn::Tanhshrink>;
  m["Softsign"] = plain<nn::Softsign>;
}

// Layers of one number.
template <class M>
Maker number(const char* name, double otherwise) {
  return [=](const Json& a, const Json&) { return layer<M>(get(a, name, otherwise)); };
}
template <class M>
Maker numbers(const char* first, double one, const char* second, double two) {
  return
      [=](const Json& a, const Json&) { return layer<M>(get(a, first, one), get(a, second, two)); };
}
template <class M>
Maker along(I otherwise) {
  return [=](const Json& a, const Json&) { return layer<M>(get(a, "dim", otherwise)); };
}

void add_activations(Makers& m) {
  m["GELU"] = [](const Json& a, const Json&) {
    const bool tanh = get(a, "approximate", std::string("none")) == "tanh";
    return layer<nn::GELU>(tanh ? Gelu::tanh : Gelu::erf);
  };
  m["PReLU"] = [](const Json& a, const Json&) {
    return layer<nn::PReLU>(get(a, "num_parameters", I{1}));
  };
  m["LeakyReLU"] = number<nn::LeakyReLU>("negative_slope", 0.01);
  m["ELU"] = number<nn::ELU>("alpha", 1.0);
  m["CELU"] = number<nn::CELU>("alpha", 1.0);
  m["Softshrink"] = number<nn::Softshrink>("lambd", 0.5);
  m["Hardshrink"] = number<nn::Hardshrink>("lambd", 0.5);
  m["Hardtanh"] = numbers<nn::Hardtanh>("min_val", -1.0, "max_val", 1.0);
  m["Softplus"] = numbers<nn::Softplus>("beta", 1.0, "threshold", 20.0);
  m["Threshold"] = numbers<nn::Threshold>("threshold", 0.0, "value", 0.0);
  m["GLU"] = along<nn::GLU>(-1);
  m["Softmax"] = along<nn::Softmax>(0);
  m["LogSoftmax"] = along<nn::LogSoftmax>(0);
  m["Softmin"] = along<nn::Softmin>(0);
  m["Dropout"] = number<nn::Dropout>("p", 0.5);
  m["Dropout1d"] = number<nn::Dropout1d>("p", 0.5);
  m["Dropout2d"] = number<nn::Dropout2d>("p", 0.5);
  m["Dropout3d"] = number<nn::Dropout3d>("p", 0.5);
  m["AlphaDropout"] = number<nn::AlphaDropout>("p", 0.5);
  m["FeatureAlphaDropout"] = number<nn::FeatureAlphaDropout>("p", 0.5);
  m["RReLU"] = numbers<nn::RReLU>("lower", 1.0 / 8.0, "upper", 1.0 / 3.0);
  m["Softmax2d"] = plain<nn::Softmax2d>;
}

void add_shapes(Makers& m) {
  m["Flatten"] = [](const Json& a, const Json&) {
    return layer<nn::Flatten>(get(a, "start_dim", I{1}), get(a, "end_dim", I{-1}));
  };
  m["Unflatten"] = [](const Json& a, const Json&) {
    return layer<nn::Unflatten>(a["dim"].get<I>(), shape_of(a["unflattened_size"]));
  };
}

}  // namespace

void add_plain_layers(Makers& m) {
  m["Linear"] = [](const Json& a, const Json&) {
    return layer<nn::Linear>(a["in_features"].get<I>(), a["out_features"].get<I>(),
                             nn::LinearOptions{.bias = get(a, "bias", true)});
  };
  m["Bilinear"] = [](const Json& a, const Json&) {
    return layer2<nn::Bilinear>(a["in1_features"].get<I>(), a["in2_features"].get<I>(),
                                a["out_features"].get<I>(),
                                nn::BilinearOptions{.bias = get(a, "bias", true)});
  };
  m["Embedding"] = [](const Json& a, const Json&) {
    nn::EmbeddingOptions options{.max_norm = optional(a, "max_norm", {}),
                                 .norm_type = get(a, "norm_type", 2.0),
                                 .scale_grad_by_freq = get(a, "scale_grad_by_freq", false)};
    if (a.contains("padding_idx")) options.padding_idx = a["padding_idx"].get<I>();
    return layer<nn::Embedding>(a["num_embeddings"].get<I>(), a["embedding_dim"].get<I>(), options);
  };
  add_norms(m);
  add_plain_activations(m);
  add_activations(m);
  add_shapes(m);
}

}  // namespace hero::test

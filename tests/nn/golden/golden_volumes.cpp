// Makers of layers of volumes and of pooling undone.
#include "nn/golden/layer_cases.h"

#include <hero/nn/conv.h>
#include <hero/nn/pool.h>

namespace hero::test {

namespace {

using I = int64_t;

nn::Padding padding3(const Json& a) {
  if (!a.contains("padding")) return 0;
  if (a["padding"].is_string()) return a["padding"].get<std::string>();
  if (a["padding"].is_number()) return a["padding"].get<I>();
  return Triple(size3(a["padding"]));
}

nn::PaddingMode mode3(const Json& a) {
  const std::map<std::string, nn::PaddingMode> modes = {{"zeros", nn::PaddingMode::zeros},
                                                        {"reflect", nn::PaddingMode::reflect},
                                                        {"replicate", nn::PaddingMode::replicate},
                                                        {"circular", nn::PaddingMode::circular}};
  return modes.at(get(a, "padding_mode", std::string("zeros")));
}

std::optional<nn::Size3> stride3(const Json& a) {
  return a.contains("stride") ? std::optional<nn::Size3>(size3(a["stride"])) : std::nullopt;
}

// A pooling undone; the values' gradient alone is wanted.
template <class M, class... Args>
Subject unpooling(const Json& call, const Args&... args) {
  auto module = std::make_unique<M>(args...);
  M* raw = module.get();
  Dims size;
  if (call.contains("output_size")) {
    for (const Json& each : call["output_size"]) size.push_back(each.get<I>());
  }
  return {std::move(module),
          [raw, size](const Tensors& x) { return Tensors{(*raw)(x[0], x[1], size)}; }};
}

void add_unpooling(Makers& m) {
  m["MaxUnpool1d"] = [](const Json& a, const Json& call) {
    return unpooling<nn::MaxUnpool1d>(call, a["kernel_size"].get<I>());
  };
  m["MaxUnpool2d"] = [](const Json& a, const Json& call) {
    nn::MaxUnpool2dOptions o{.padding = size2(a, "padding", 0)};
    if (a.contains("stride")) o.stride = size2(a["stride"]);
    return unpooling<nn::MaxUnpool2d>(call, size2(a["kernel_size"]), o);
  };
  m["MaxUnpool3d"] = [](const Json& a, const Json& call) {
    return unpooling<nn::MaxUnpool3d>(call, size3(a["kernel_size"]));
  };
}

}  // namespace

void add_volume_layers(Makers& m) {
  add_unpooling(m);
  m["Conv3d"] = [](const Json& a, const Json&) {
    const nn::Conv3dOptions o{.stride = size3(a, "stride", 1),
                              .padding = padding3(a),
                              .dilation = size3(a, "dilation", 1),
                              .groups = get(a, "groups", I{1}),
                              .bias = get(a, "bias", true),
                              .padding_mode = mode3(a)};
    return layer<nn::Conv3d>(a["in_channels"].get<I>(), a["out_channels"].get<I>(),
                             size3(a["kernel_size"]), o);
  };
  m["ConvTranspose3d"] = [](const Json& a, const Json&) {
    const nn::ConvTranspose3dOptions o{.stride = size3(a, "stride", 1),
                                       .padding = size3(a, "padding", 0),
                                       .output_padding = size3(a, "output_padding", 0),
                                       .groups = get(a, "groups", I{1}),
                                       .bias = get(a, "bias", true),
                                       .dilation = size3(a, "dilation", 1)};
    return layer<nn::ConvTranspose3d>(a["in_channels"].get<I>(), a["out_channels"].get<I>(),
                                      size3(a["kernel_size"]), o);
  };
  m["MaxPool3d"] = [](const Json& a, const Json&) {
    return layer<nn::MaxPool3d>(size3(a["kernel_size"]),
                                nn::MaxPool3dOptions{.stride = stride3(a),
                                                     .padding = size3(a, "padding", 0),
                                                     .dilation = size3(a, "dilation", 1),
                                                     .ceil_mode = get(a, "ceil_mode", false)});
  };
  m["AvgPool3d"] = [](const Json& a, const Json&) {
    nn::AvgPool3dOptions o{.stride = stride3(a),
                           .padding = size3(a, "padding", 0),
                           .ceil_mode = get(a, "ceil_mode", false),
                           .count_include_pad = get(a, "count_include_pad", true)};
    if (a.contains("divisor_override")) o.divisor_override = a["divisor_override"].get<I>();
    return layer<nn::AvgPool3d>(size3(a["kernel_size"]), o);
  };
  m["AdaptiveAvgPool3d"] = [](const Json& a, const Json&) {
    return layer<nn::AdaptiveAvgPool3d>(size3(a["output_size"]));
  };
  m["AdaptiveMaxPool3d"] = [](const Json& a, const Json&) {
    return layer<nn::AdaptiveMaxPool3d>(size3(a["output_size"]));
  };
}

}  // namespace hero::test

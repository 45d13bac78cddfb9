// Makers of convolutions and pooling.
#include "nn/golden/layer_cases.h"

#include <hero/nn/conv.h>
#include <hero/nn/pool.h>

namespace hero::test {

namespace {

using I = int64_t;

nn::Padding padding(const Json& a) {
  if (!a.contains("padding")) return 0;
  if (a["padding"].is_string()) return a["padding"].get<std::string>();
  if (a["padding"].is_number()) return a["padding"].get<I>();
  return Pair(size2(a["padding"]));
}

nn::PaddingMode mode(const Json& a) {
  const std::string name = get(a, "padding_mode", std::string("zeros"));
  if (name == "reflect") return nn::PaddingMode::reflect;
  if (name == "replicate") return nn::PaddingMode::replicate;
  return name == "circular" ? nn::PaddingMode::circular : nn::PaddingMode::zeros;
}

void add_convolutions(Makers& m) {
  m["Conv1d"] = [](const Json& a, const Json&) {
    nn::Conv1dOptions o{.stride = get(a, "stride", I{1}), .padding = padding(a)};
    o.dilation = get(a, "dilation", I{1});
    o.groups = get(a, "groups", I{1});
    o.bias = get(a, "bias", true);
    o.padding_mode = mode(a);
    return layer<nn::Conv1d>(a["in_channels"].get<I>(), a["out_channels"].get<I>(),
                             a["kernel_size"].get<I>(), o);
  };
  m["Conv2d"] = [](const Json& a, const Json&) {
    nn::Conv2dOptions o{.stride = size2(a, "stride", 1), .padding = padding(a)};
    o.dilation = size2(a, "dilation", 1);
    o.groups = get(a, "groups", I{1});
    o.bias = get(a, "bias", true);
    o.padding_mode = mode(a);
    return layer<nn::Conv2d>(a["in_channels"].get<I>(), a["out_channels"].get<I>(),
                             size2(a["kernel_size"]), o);
  };
  m["ConvTranspose1d"] = [](const Json& a, const Json&) {
    const nn::ConvTranspose1dOptions o{.stride = get(a, "stride", I{1}),
                                       .padding = get(a, "padding", I{0}),
                                       .output_padding = get(a, "output_padding", I{0}),
                                       .groups = get(a, "groups", I{1}),
                                       .bias = get(a, "bias", true),
                                       .dilation = get(a, "dilation", I{1})};
    return layer<nn::ConvTranspose1d>(a["in_channels"].get<I>(), a["out_channels"].get<I>(),
                                      a["kernel_size"].get<I>(), o);
  };
  m["ConvTranspose2d"] = [](const Json& a, const Json&) {
    const nn::ConvTranspose2dOptions o{.stride = size2(a, "stride", 1),
                                       .padding = size2(a, "padding", 0),
                                       .output_padding = size2(a, "output_padding", 0),
                                       .groups = get(a, "groups", I{1}),
                                       .bias = get(a, "bias", true),
                                       .dilation = size2(a, "dilation", 1)};
    return layer<nn::ConvTranspose2d>(a["in_channels"].get<I>(), a["out_channels"].get<I>(),
                                      size2(a["kernel_size"]), o);
  };
}

std::optional<I> stride1(const Json& a) {
  return a.contains("stride") ? std::optional<I>(a["stride"].get<I>()) : std::nullopt;
}
std::optional<nn::Size2> stride2(const Json& a) {
  return a.contains("stride") ? std::optional<nn::Size2>(size2(a["stride"])) : std::nullopt;
}

std::optional<I> divisor(const Json& a) {
  if (!a.contains("divisor_override")) return {};
  return a["divisor_override"].get<I>();
}

}  // namespace

void add_window_layers(Makers& m) {
  add_convolutions(m);
  m["MaxPool1d"] = [](const Json& a, const Json&) {
    return layer<nn::MaxPool1d>(a["kernel_size"].get<I>(),
                                nn::MaxPool1dOptions{.stride = stride1(a),
                                                     .padding = get(a, "padding", I{0}),
                                                     .dilation = get(a, "dilation", I{1}),
                                                     .ceil_mode = get(a, "ceil_mode", false)});
  };
  m["MaxPool2d"] = [](const Json& a, const Json&) {
    return layer<nn::MaxPool2d>(size2(a["kernel_size"]),
                                nn::MaxPool2dOptions{.stride = stride2(a),
                                                     .padding = size2(a, "padding", 0),
                                                     .dilation = size2(a, "dilation", 1),
                                                     .ceil_mode = get(a, "ceil_mode", false)});
  };
  m["AvgPool1d"] = [](const Json& a, const Json&) {
    return layer<nn::AvgPool1d>(
        a["kernel_size"].get<I>(),
        nn::AvgPool1dOptions{.stride = stride1(a),
                             .padding = get(a, "padding", I{0}),
                             .ceil_mode = get(a, "ceil_mode", false),
                             .count_include_pad = get(a, "count_include_pad", true)});
  };
  m["AvgPool2d"] = [](const Json& a, const Json&) {
    return layer<nn::AvgPool2d>(
        size2(a["kernel_size"]),
        nn::AvgPool2dOptions{.stride = stride2(a),
                             .padding = size2(a, "padding", 0),
                             .ceil_mode = get(a, "ceil_mode", false),
                             .count_include_pad = get(a, "count_include_pad", true),
                             .divisor_override = divisor(a)});
  };
  m["AdaptiveAvgPool1d"] = [](const Json& a, const Json&) {
    return layer<nn::AdaptiveAvgPool1d>(a["output_size"].get<I>());
  };
  m["AdaptiveAvgPool2d"] = [](const Json& a, const Json&) {
    return layer<nn::AdaptiveAvgPool2d>(size2(a["output_size"]));
  };
  m["AdaptiveMaxPool1d"] = [](const Json& a, const Json&) {
    return layer<nn::AdaptiveMaxPool1d>(a["output_size"].get<I>());
  };
  m["AdaptiveMaxPool2d"] = [](const Json& a, const Json&) {
    return layer<nn::AdaptiveMaxPool2d>(size2(a["output_size"]));
  };
}

}  // namespace hero::test

// Makers of paddings, resampling, windows as columns and bags of rows.
#include "nn/golden/layer_cases.h"

#include <hero/nn/embedding.h>
#include <hero/nn/shape.h>

namespace hero::test {

namespace {

using I = int64_t;

template <class M>
Subject padding(const Json& a, const Json&) {
  return layer<M>(one_or_each<I>(a, "padding"));
}
template <class M>
Subject constant_padding(const Json& a, const Json&) {
  const Json& value = a["value"];
  const Scalar number =
      value.is_number_integer() ? Scalar(value.get<I>()) : Scalar(value.get<double>());
  return layer<M>(one_or_each<I>(a, "padding"), number);
}

void add_paddings(Makers& m) {
  m["ZeroPad1d"] = padding<nn::ZeroPad1d>;
  m["ZeroPad2d"] = padding<nn::ZeroPad2d>;
  m["ZeroPad3d"] = padding<nn::ZeroPad3d>;
  m["ReflectionPad1d"] = padding<nn::ReflectionPad1d>;
  m["ReflectionPad2d"] = padding<nn::ReflectionPad2d>;
  m["ReflectionPad3d"] = padding<nn::ReflectionPad3d>;
  m["ReplicationPad1d"] = padding<nn::ReplicationPad1d>;
  m["ReplicationPad2d"] = padding<nn::ReplicationPad2d>;
  m["ReplicationPad3d"] = padding<nn::ReplicationPad3d>;
  m["CircularPad1d"] = padding<nn::CircularPad1d>;
  m["CircularPad2d"] = padding<nn::CircularPad2d>;
  m["CircularPad3d"] = padding<nn::CircularPad3d>;
  m["ConstantPad1d"] = constant_padding<nn::ConstantPad1d>;
  m["ConstantPad2d"] = constant_padding<nn::ConstantPad2d>;
  m["ConstantPad3d"] = constant_padding<nn::ConstantPad3d>;
}

template <class M>
Subject upsampling(const Json& a, const Json&) {
  return layer<M>(nn::Upsampling2dOptions{.size = one_or_each<I>(a, "size"),
                                          .scale_factor = one_or_each<double>(a, "scale_factor")});
}

void add_resampling(Makers& m) {
  m["Upsample"] = [](const Json& a, const Json&) {
    const std::map<std::string, Interpolation> modes = {
        {"nearest", Interpolation::nearest}, {"nearest-exact", Interpolation::nearest_exact},
        {"linear", Interpolation::linear},   {"bilinear", Interpolation::bilinear},
        {"bicubic", Interpolation::bicubic}, {"trilinear", Interpolation::trilinear},
        {"area", Interpolation::area}};
    return layer<nn::Upsample>(
        nn::UpsampleOptions{.size = one_or_each<I>(a, "size"),
                            .scale_factor = one_or_each<double>(a, "scale_factor"),
                            .mode = modes.at(get(a, "mode", std::string("nearest"))),
                            .align_corners = get(a, "align_corners", false),
                            .recompute_scale_factor = get(a, "recompute_scale_factor", false)});
  };
  m["UpsamplingNearest2d"] = upsampling<nn::UpsamplingNearest2d>;
  m["UpsamplingBilinear2d"] = upsampling<nn::UpsamplingBilinear2d>;
  m["PixelShuffle"] = [](const Json& a, const Json&) {
    return layer<nn::PixelShuffle>(a["upscale_factor"].get<I>());
  };
  m["PixelUnshuffle"] = [](const Json& a, const Json&) {
    return layer<nn::PixelUnshuffle>(a["downscale_factor"].get<I>());
  };
  m["ChannelShuffle"] = [](const Json& a, const Json&) {
    return layer<nn::ChannelShuffle>(a["groups"].get<I>());
  };
}

nn::FoldOptions fold_options(const Json& a) {
  return {.dilation = size2(a, "dilation", 1),
          .padding = size2(a, "padding", 0),
          .stride = size2(a, "stride", 1)};
}

Subject embedding_bag(const Json& a, const Json&) {
  const std::map<std::string, BagMode> modes = {
      {"sum", BagMode::sum}, {"mean", BagMode::mean}, {"max", BagMode::max}};
  nn::EmbeddingBagOptions o{.mode = modes.at(get(a, "mode", std::string("mean"))),
                            .include_last_offset = get(a, "include_last_offset", false),
                            .scale_grad_by_freq = get(a, "scale_grad_by_freq", false)};
  if (a.contains("max_norm")) o.max_norm = a["max_norm"].get<double>();
  if (a.contains("padding_idx")) o.padding_idx = a["padding_idx"].get<I>();
  auto module = std::make_unique<nn::EmbeddingBag>(a["num_embeddings"].get<I>(),
                                                   a["embedding_dim"].get<I>(), o);
  nn::EmbeddingBag* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) {
            if (x.size() == 1) return Tensors{(*raw)(x[0])};
            const bool factors = is_floating(x[1].dtype());
            return Tensors{factors ? (*raw)(x[0], {}, x[1]) : (*raw)(x[0], x[1])};
          }};
}

}  // namespace

void add_image_layers(Makers& m) {
  add_paddings(m);
  add_resampling(m);
  m["Unfold"] = [](const Json& a, const Json&) {
    return layer<nn::Unfold>(size2(a["kernel_size"]), fold_options(a));
  };
  m["Fold"] = [](const Json& a, const Json&) {
    return layer<nn::Fold>(size2(a["output_size"]), size2(a["kernel_size"]), fold_options(a));
  };
  m["EmbeddingBag"] = embedding_bag;
}

}  // namespace hero::test

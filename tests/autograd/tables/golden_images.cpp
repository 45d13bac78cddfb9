// The operators of golden/ops_further on images and volumes, by place and on matrices.
#include "autograd/tables/golden.h"

#include <hero/autograd/ops.h>

namespace hero::golden {

namespace {

Triple triple(const Call& c, const std::string& key) {
  const Dims values = c.dims(key);
  return {values[0], values[1], values[2]};
}

InterpolateOptions interpolate_options(const Call& c) {
  const std::map<std::string, Interpolation> modes = {
      {"nearest", Interpolation::nearest}, {"nearest-exact", Interpolation::nearest_exact},
      {"linear", Interpolation::linear},   {"bilinear", Interpolation::bilinear},
      {"bicubic", Interpolation::bicubic}, {"trilinear", Interpolation::trilinear},
      {"area", Interpolation::area}};
  InterpolateOptions options;
  if (c.has("size")) options.size = c.attr("size").get<std::vector<int64_t>>();
  if (c.has("scale")) options.scale_factor = c.attr("scale").get<std::vector<double>>();
  options.mode = modes.at(c.attr("mode").get<std::string>());
  options.align_corners = c.get<bool>("align_corners", false);
  options.recompute_scale_factor = c.get<bool>("recompute", false);
  options.antialias = c.get<bool>("antialias", false);
  return options;
}

GridSampleOptions grid_options(const Call& c) {
  const std::map<std::string, GridMode> modes = {{"bilinear", GridMode::bilinear},
                                                 {"nearest", GridMode::nearest},
                                                 {"bicubic", GridMode::bicubic}};
  const std::map<std::string, GridPadding> paddings = {{"zeros", GridPadding::zeros},
                                                       {"border", GridPadding::border},
                                                       {"reflection", GridPadding::reflection}};
  return {.mode = modes.at(c.attr("mode").get<std::string>()),
          .padding_mode = paddings.at(c.attr("padding").get<std::string>()),
          .align_corners = c.get<bool>("align_corners", false)};
}

UnfoldOptions unfold_options(const Call& c) {
  return {.dilation = c.pair("dilation", 1),
          .padding = c.pair("padding", 0),
          .stride = c.pair("stride", 1)};
}

void add_sampling(Table& table) {
  table["interpolate"] = [](const Call& c) -> Results {
    return {interpolate(c.x(), interpolate_options(c))};
  };
  table["grid_sample"] = [](const Call& c) -> Results {
    return {grid_sample(c.x(), c.in("grid"), grid_options(c))};
  };
  table["affine_grid"] = [](const Call& c) -> Results {
    return {affine_grid(c.x(), c.dims("size"), c.get<bool>("align_corners", false))};
  };
  table["unfold2d"] = [](const Call& c) -> Results {
    return {unfold(c.x(), c.pair("kernel", 1), unfold_options(c))};
  };
  table["fold"] = [](const Call& c) -> Results {
    return {fold(c.x(), c.pair("output", 1), c.pair("kernel", 1), unfold_options(c))};
  };
  table["max_pool2d_with_indices"] = [](const Call& c) -> Results {
    return both(max_pool2d_with_indices(c.x(), c.pair("kernel", 1),
                                        {.stride = c.pair("stride", 1),
                                         .padding = c.pair("padding", 0),
                                         .dilation = c.pair("dilation", 1)}));
  };
  table["max_unpool2d"] = [](const Call& c) -> Results {
    return {max_unpool2d(c.x(), c.in("index"), c.pair("output", 1))};
  };
}

Pool3dOptions pool3d_options(const Call& c) {
  Pool3dOptions options{.stride = triple(c, "stride"),
                        .padding = triple(c, "padding"),
                        .ceil_mode = c.get<bool>("ceil", false),
                        .count_include_pad = c.get<bool>("count", true)};
  if (c.has("divisor")) options.divisor_override = c.integer("divisor");
  return options;
}

void add_volumes(Table& table) {
  table["conv3d"] = [](const Call& c) -> Results {
    return {conv3d(c.x(), c.in("weight"), c.in("bias"),
                   {.stride = triple(c, "stride"),
                    .padding = triple(c, "padding"),
                    .dilation = triple(c, "dilation"),
                    .groups = c.integer("groups")})};
  };
  table["conv_transpose3d"] = [](const Call& c) -> Results {
    return {conv_transpose3d(c.x(), c.in("weight"), c.in("bias"),
                             {.stride = triple(c, "stride"),
                              .padding = triple(c, "padding"),
                              .output_padding = triple(c, "extra"),
                              .dilation = triple(c, "dilation"),
                              .groups = c.integer("groups")})};
  };
  table["max_pool3d"] = [](const Call& c) -> Results {
    return {max_pool3d(c.x(), triple(c, "kernel"), pool3d_options(c))};
  };
  table["avg_pool3d"] = [](const Call& c) -> Results {
    return {avg_pool3d(c.x(), triple(c, "kernel"), pool3d_options(c))};
  };
  table["max_pool3d_with_indices"] = [](const Call& c) -> Results {
    return both(max_pool3d_with_indices(c.x(), triple(c, "kernel"), pool3d_options(c)));
  };
  table["adaptive_avg_pool3d"] = [](const Call& c) -> Results {
    return {adaptive_avg_pool3d(c.x(), triple(c, "output"))};
  };
  table["adaptive_max_pool3d"] = [](const Call& c) -> Results {
    return {adaptive_max_pool3d(c.x(), triple(c, "output"))};
  };
  table["conv1d_same"] = [](const Call& c) -> Results {
    return {conv1d(c.x(), c.in("weight"), c.in("bias"), PaddingWord::same, c.dims("dilation")[0])};
  };
  table["conv2d_same"] = [](const Call& c) -> Results {
    return {conv2d(c.x(), c.in("weight"), c.in("bias"), PaddingWord::same, c.pair("dilation", 1))};
  };
  table["conv3d_same"] = [](const Call& c) -> Results {
    return {conv3d(c.x(), c.in("weight"), c.in("bias"), PaddingWord::same)};
  };
}

void add_image_functions(Table& table) {
  table["normalize"] = [](const Call& c) -> Results {
    return {normalize(c.x(), c.number("p"), c.integer("dim"))};
  };
  table["local_response_norm"] = [](const Call& c) -> Results {
    return {local_response_norm(c.x(), c.integer("size"), 0.3, 0.75, 2.0)};
  };
  table["instance_norm"] = [](const Call& c) -> Results {
    return {instance_norm(c.x(), {}, {}, {.weight = c.in("weight"), .bias = c.in("bias")})};
  };
  table["multilabel_margin_loss"] = [](const Call& c) -> Results {
    return {multilabel_margin_loss(c.x(), c.in("y"), c.reduction())};
  };
  table["ctc_loss"] = [](const Call& c) -> Results {
    return {ctc_loss(log_softmax(c.x(), -1), c.in("targets"), c.in("inputs"), c.in("lengths"),
                     {.reduction = c.reduction(), .zero_infinity = true})};
  };
  table["scatter_reduce"] = [](const Call& c) -> Results {
    const std::map<std::string, ScatterReduce> ways = {{"sum", ScatterReduce::sum},
                                                       {"mean", ScatterReduce::mean},
                                                       {"prod", ScatterReduce::prod},
                                                       {"amax", ScatterReduce::amax},
                                                       {"amin", ScatterReduce::amin}};
    return {scatter_reduce(c.x(), c.integer("dim"), c.in("index"), c.in("src"),
                           ways.at(c.attr("reduce").get<std::string>()), c.get<bool>("own", true))};
  };
  table["embedding_bag"] = [](const Call& c) -> Results {
    const std::map<std::string, BagMode> modes = {
        {"sum", BagMode::sum}, {"mean", BagMode::mean}, {"max", BagMode::max}};
    EmbeddingBagOptions options{.offsets = c.in("offsets"),
                                .mode = modes.at(c.attr("mode").get<std::string>()),
                                .per_sample_weights = c.in("factors")};
    if (c.has("padding")) options.padding_idx = c.integer("padding");
    return {embedding_bag(c.in("weight"), c.in("index"), options)};
  };
}

Tensor unit3(const Tensor& like) {
  return eye(3, {.dtype = like.dtype(), .device = like.device()});
}

void add_decompositions(Table& table) {
  table["svd_parts"] = [](const Call& c) -> Results {
    const SVD found = svd(c.x());
    return {found.s, matmul(found.u * unsqueeze(sin(found.s), -2), found.vh)};
  };
  table["pinv"] = [](const Call& c) -> Results { return {pinv(c.x())}; };
  table["eigh_parts"] = [](const Call& c) -> Results {
    const Eigh found = eigh((c.x() + c.x().t()) / 2.0);
    const Tensor v = found.eigenvectors;
    return {found.eigenvalues, matmul(v * unsqueeze(sin(found.eigenvalues), -2), v.t())};
  };
  table["solve_triangular"] = [](const Call& c) -> Results {
    return {solve_triangular(c.in("a"), c.in("b"),
                             {.upper = c.get<bool>("upper", true),
                              .left = c.get<bool>("left", true),
                              .unitriangular = c.get<bool>("unit", false)})};
  };
  table["cholesky_upper"] = [](const Call& c) -> Results {
    return {cholesky(matmul(c.x(), c.x().t()) + unit3(c.x()), Triangle::upper)};
  };
  table["logdet"] = [](const Call& c) -> Results {
    return {logdet(matmul(c.x(), c.x().t()) + unit3(c.x()))};
  };
  table["matrix_norm"] = [](const Call& c) -> Results {
    const std::map<std::string, MatrixNorm> norms = {{"fro", MatrixNorm::fro},
                                                     {"nuc", MatrixNorm::nuc},
                                                     {"inf", MatrixNorm::inf},
                                                     {"one", MatrixNorm::one},
                                                     {"two", MatrixNorm::two}};
    return {matrix_norm(c.x(), norms.at(c.attr("which").get<std::string>()))};
  };
  table["matrix_rank"] = [](const Call& c) -> Results { return {matrix_rank(c.x())}; };
}

}  // namespace

void add_images(Table& table) {
  add_sampling(table);
  add_volumes(table);
  add_image_functions(table);
  add_decompositions(table);
}

}  // namespace hero::golden

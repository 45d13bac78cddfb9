// The operators of golden/ops_further.
#include "autograd/tables/golden.h"

#include <hero/autograd/ops.h>

namespace hero::golden {

namespace {

void add_special(Table& table) {
  table["heaviside"] = [](const Call& c) -> Results { return {heaviside(c.in("a"), c.in("b"))}; };
  table["logit"] = [](const Call& c) -> Results {
    return {c.has("eps") ? logit(c.x(), c.number("eps")) : logit(c.x())};
  };
  table["polygamma"] = [](const Call& c) -> Results { return {polygamma(c.integer("n"), c.x())}; };
  table["nan_to_num"] = [](const Call& c) -> Results {
    NanToNum options{.nan = c.get("nan", 0.0)};
    if (c.has("posinf")) options.posinf = c.number("posinf");
    if (c.has("neginf")) options.neginf = c.number("neginf");
    return {nan_to_num(c.x(), options)};
  };
  table["round_decimals"] = [](const Call& c) -> Results {
    return {round(c.x(), c.integer("decimals"))};
  };
  table["div_rounding"] = [](const Call& c) -> Results {
    const bool floors = c.get<std::string>("mode", "") == "floor";
    return {div(c.in("a"), c.in("b"), floors ? Rounding::floor : Rounding::trunc)};
  };
  table["clamp_tensors"] = [](const Call& c) -> Results {
    return {clamp(c.x(), c.in("low"), c.in("high"))};
  };
  table["add_alpha"] = [](const Call& c) -> Results {
    return {add(c.in("a"), c.in("b"), c.number("alpha"))};
  };
  table["sub_alpha"] = [](const Call& c) -> Results {
    return {sub(c.in("a"), c.in("b"), c.number("alpha"))};
  };
}

void add_dimensions(Table& table) {
  table["movedim"] = [](const Call& c) -> Results {
    return {movedim(c.x(), c.dims("source"), c.dims("destination"))};
  };
  table["rot90"] = [](const Call& c) -> Results {
    return {rot90(c.x(), c.integer("k"), c.dims("dims"))};
  };
  table["diag_embed"] = [](const Call& c) -> Results {
    return {diag_embed(c.x(), c.integer("offset"), c.integer("dim1"), c.integer("dim2"))};
  };
  table["pixel_shuffle"] = [](const Call& c) -> Results {
    return {pixel_shuffle(c.x(), c.integer("r"))};
  };
  table["pixel_unshuffle"] = [](const Call& c) -> Results {
    return {pixel_unshuffle(c.x(), c.integer("r"))};
  };
  table["channel_shuffle"] = [](const Call& c) -> Results {
    return {channel_shuffle(c.x(), c.integer("groups"))};
  };
  using Join = Tensor (*)(const std::vector<Tensor>&);
  const std::map<std::string, Join> joins = {
      {"hstack", hstack},         {"vstack", vstack},
      {"dstack", dstack},         {"column_stack", column_stack},
      {"block_diag", block_diag}, {"cartesian_prod", cartesian_prod}};
  for (const auto& [name, f] : joins) {
    table[name] = [f = f](const Call& c) -> Results { return {f(c.operands())}; };
  }
  table["tensor_split"] = [](const Call& c) -> Results {
    const Json& sections = c.attr("sections");
    if (!sections.is_array()) {
      return tensor_split(c.x(), sections.get<int64_t>(), c.integer("dim"));
    }
    return tensor_split(c.x(), sections.get<std::vector<int64_t>>(), c.integer("dim"));
  };
  table["meshgrid"] = [](const Call& c) -> Results {
    const bool xy = c.get<std::string>("indexing", "ij") == "xy";
    return meshgrid(c.operands(), xy ? Indexing::xy : Indexing::ij);
  };
  table["combinations"] = [](const Call& c) -> Results {
    return {combinations(c.x(), c.integer("r"), c.get<bool>("again", false))};
  };
  table["tril_indices"] = [](const Call& c) -> Results {
    return {
        tril_indices(c.integer("rows"), c.integer("columns"), c.integer("offset"), c.x().device())};
  };
  table["triu_indices"] = [](const Call& c) -> Results {
    return {
        triu_indices(c.integer("rows"), c.integer("columns"), c.integer("offset"), c.x().device())};
  };
  table["repeat_interleave_tensor"] = [](const Call& c) -> Results {
    return {repeat_interleave(c.x(), c.in("repeats"), c.integer("dim"))};
  };
}

void add_places(Table& table) {
  table["take"] = [](const Call& c) -> Results { return {take(c.x(), c.in("index"))}; };
  table["put"] = [](const Call& c) -> Results {
    return {put(c.x(), c.in("index"), c.in("src"), c.get<bool>("accumulate", false))};
  };
  table["take_along_dim"] = [](const Call& c) -> Results {
    return {take_along_dim(c.x(), c.in("index"), c.integer("dim"))};
  };
  table["index_fill"] = [](const Call& c) -> Results {
    return {index_fill(c.x(), c.integer("dim"), c.in("index"), Scalar(c.number("value")))};
  };
  table["index_fill_tensor"] = [](const Call& c) -> Results {
    return {index_fill(c.x(), c.integer("dim"), c.in("index"), c.in("value"))};
  };
  table["index_copy"] = [](const Call& c) -> Results {
    return {index_copy(c.x(), c.integer("dim"), c.in("index"), c.in("src"))};
  };
  table["masked_scatter"] = [](const Call& c) -> Results {
    return {masked_scatter(c.x(), c.in("mask"), c.in("src"))};
  };
  table["select_scatter"] = [](const Call& c) -> Results {
    return {select_scatter(c.x(), c.in("src"), 1, -1)};
  };
  table["slice_scatter"] = [](const Call& c) -> Results {
    return {slice_scatter(c.x(), c.in("src"), 1, 0, 3, 2)};
  };
  table["diagonal_scatter"] = [](const Call& c) -> Results {
    return {diagonal_scatter(c.x(), c.in("src"), 1)};
  };
}

Results all_of(const Unique& u) { return {u.values, u.inverse, u.counts}; }

UniqueOptions unique_options(const Call& c) {
  UniqueOptions options{.return_inverse = true, .return_counts = true};
  if (c.has("dim")) options.dim = c.integer("dim");
  return options;
}

void add_searches(Table& table) {
  table["searchsorted"] = [](const Call& c) -> Results {
    return {searchsorted(c.in("a"), c.in("b"),
                         {.right = c.get<bool>("right", false), .sorter = c.in("sorter")})};
  };
  table["bucketize"] = [](const Call& c) -> Results {
    return {bucketize(c.in("b"), c.in("a"), {.right = c.get<bool>("right", false)})};
  };
  table["isin"] = [](const Call& c) -> Results {
    return {isin(c.in("a"), c.in("b"), c.get<bool>("invert", false))};
  };
  table["unique"] = [](const Call& c) -> Results {
    return all_of(unique(c.x(), unique_options(c)));
  };
  table["unique_consecutive"] = [](const Call& c) -> Results {
    return all_of(unique_consecutive(c.x(), unique_options(c)));
  };
  table["bincount"] = [](const Call& c) -> Results {
    return {bincount(c.x(), c.in("weights"), c.get<int64_t>("minlength", 0))};
  };
  table["histc"] = [](const Call& c) -> Results {
    return {histc(c.x(), c.integer("bins"), c.number("low"), c.number("high"))};
  };
}

}  // namespace

void add_further(Table& table) {
  add_special(table);
  add_dimensions(table);
  add_places(table);
  add_searches(table);
}

}  // namespace hero::golden

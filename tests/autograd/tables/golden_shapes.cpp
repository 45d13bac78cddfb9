#include "autograd/tables/golden.h"

namespace hero::golden {

namespace {

int64_t bound_or(const Json& value, int64_t absent) {
  return value.is_null() ? absent : value.get<int64_t>();
}

Results slices(const Call& c) {
  Tensor x = c.x();
  for (const Json& part : c.attr("slices")) {
    const int64_t step = part.size() > 3 ? bound_or(part[3], 1) : 1;
    x = slice(x, part[0].get<int64_t>(), bound_or(part[1], 0), bound_or(part[2], kEnd), step);
  }
  return {x};
}

Results splits(const Call& c) {
  const int64_t dim = c.get<int64_t>("dim", 0);
  const Json& sizes = c.attr("sizes");
  if (sizes.is_array()) return split(c.x(), sizes.get<std::vector<int64_t>>(), dim);
  return split(c.x(), sizes.get<int64_t>(), dim);
}

Results padded(const Call& c) {
  const auto text = c.get<std::string>("mode", "constant");
  check(text == "constant" || text == "reflect" || text == "replicate" || text == "circular",
        "golden: pad mode ", text);
  PadMode mode = PadMode::constant;
  if (text == "reflect") mode = PadMode::reflect;
  if (text == "replicate") mode = PadMode::replicate;
  if (text == "circular") mode = PadMode::circular;
  const auto amounts = c.attr("pad").get<std::vector<int64_t>>();
  return {pad(c.x(), amounts, mode, c.get("value", 0.0))};
}

Results rolled(const Call& c) {
  const Dims shifts = c.dims("shifts"), dims = c.dims("dims");
  if (!dims.empty()) return {roll(c.x(), shifts, dims)};
  return {reshape(roll(flatten(c.x()), shifts, {0}), c.x().shape())};
}

Results repeated(const Call& c) {
  const int64_t repeats = c.integer("repeats");
  if (!c.has("dim")) return {repeat_interleave(flatten(c.x()), repeats, 0)};
  return {repeat_interleave(c.x(), repeats, c.integer("dim"))};
}

void add_views(Table& table) {
  table["slice"] = slices;
  table["split"] = splits;
  table["chunk"] = [](const Call& c) -> Results {
    return chunk(c.x(), c.integer("chunks"), c.get<int64_t>("dim", 0));
  };
  table["unbind"] = [](const Call& c) -> Results {
    return unbind(c.x(), c.get<int64_t>("dim", 0));
  };
  table["select"] = [](const Call& c) -> Results {
    return {select(c.x(), c.integer("dim"), c.integer("index"))};
  };
  table["permute"] = [](const Call& c) -> Results { return {permute(c.x(), c.dims("dims"))}; };
  table["reshape"] = [](const Call& c) -> Results { return {reshape(c.x(), c.dims("shape"))}; };
  table["expand"] = [](const Call& c) -> Results { return {expand(c.x(), c.dims("shape"))}; };
  table["permute_reshape"] = [](const Call& c) -> Results {
    return {reshape(permute(c.x(), c.dims("dims")), c.dims("shape"))};
  };
  table["diagonal"] = [](const Call& c) -> Results {
    return {diagonal(c.x(), c.get<int64_t>("offset", 0), c.get<int64_t>("dim1", 0),
                     c.get<int64_t>("dim2", 1))};
  };
  table["unfold"] = [](const Call& c) -> Results {
    return {unfold(c.x(), c.integer("dim"), c.integer("size"), c.integer("step"))};
  };
  // Strides are those of a contiguous input.
  table["as_strided"] = [](const Call& c) -> Results {
    return {as_strided(contiguous(c.x()), c.dims("size"), c.dims("stride"),
                       c.get<int64_t>("offset", 0))};
  };
  table["squeeze_unsqueeze"] = [](const Call& c) -> Results {
    return {unsqueeze(squeeze(c.x(), c.integer("squeeze")), c.integer("unsqueeze"))};
  };
}

void add_copies(Table& table) {
  table["cat"] = [](const Call& c) -> Results {
    return {cat(c.operands(), c.get<int64_t>("dim", 0))};
  };
  table["stack"] = [](const Call& c) -> Results {
    return {stack(c.operands(), c.get<int64_t>("dim", 0))};
  };
  table["repeat"] = [](const Call& c) -> Results { return {repeat(c.x(), c.dims("repeats"))}; };
  table["repeat_interleave"] = repeated;
  table["flip"] = [](const Call& c) -> Results { return {flip(c.x(), c.dims("dims"))}; };
  table["roll"] = rolled;
  table["tril"] = [](const Call& c) -> Results {
    return {tril(c.x(), c.get<int64_t>("diagonal", 0))};
  };
  table["triu"] = [](const Call& c) -> Results {
    return {triu(c.x(), c.get<int64_t>("diagonal", 0))};
  };
  table["pad"] = padded;
}

void add_indexing(Table& table) {
  table["embedding"] = [](const Call& c) -> Results {
    const auto padding =
        c.has("padding_idx") ? std::optional<int64_t>(c.integer("padding_idx")) : std::nullopt;
    return {embedding(c.in("weight"), c.in("index"), padding)};
  };
  table["gather"] = [](const Call& c) -> Results {
    return {gather(c.x(), c.integer("dim"), c.in("index"))};
  };
  table["scatter"] = [](const Call& c) -> Results {
    return {scatter(c.x(), c.integer("dim"), c.in("index"), c.in("src"))};
  };
  table["scatter_add"] = [](const Call& c) -> Results {
    return {scatter_add(c.x(), c.integer("dim"), c.in("index"), c.in("src"))};
  };
  table["index_select"] = [](const Call& c) -> Results {
    return {index_select(c.x(), c.integer("dim"), c.in("index"))};
  };
  table["index_add"] = [](const Call& c) -> Results {
    return {index_add(c.x(), c.integer("dim"), c.in("index"), c.in("src"), c.get("alpha", 1.0))};
  };
}

}  // namespace

void add_shapes(Table& table) {
  add_views(table);
  add_copies(table);
  add_indexing(table);
}

}  // namespace hero::golden

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include <hero/dist/data_parallel/wrap.h>
#include <hero/dist/parallel/tensor_plan.h>
#include <hero/nn/embedding.h>
#include <hero/nn/linear.h>

namespace hero::dist {
namespace {

bool matches(const char* pattern, const char* path) {
  for (; *pattern != '*'; ++pattern, ++path) {
    if (*pattern != *path) return false;
    if (*pattern == '\0') return true;
  }
  for (;; ++path) {
    if (matches(pattern + 1, path)) return true;
    if (*path == '\0') return false;
  }
}

// Letters to change, add or leave out; Levenshtein's distance.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

[[noreturn]] void fail_unknown(const std::string& path, const nn::Named<nn::Module*>& modules) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const auto& [name, module] : modules) near.emplace_back(distance(path, name), name);
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i) {
    names += (i > 0 ? ", '" : "'") + near[i].second + "'";
  }
  fail("tensor_parallel: no module is called '", path, "'; the nearest are ", names);
}

// One module's place in a plan, on its way to regions.
struct PlannedModule {
  std::string path;
  nn::Module& module;
  Cut cut;
  int slices;
  int parts = 1;

  nn::Slot* slot(const std::string& name) const {
    for (const auto& [known, slot] : module.slots()) {
      if (known == name) return slot;
    }
    return nullptr;
  }
  std::string below(const std::string& name) const {
    return path.empty() ? name : path + "." + name;
  }
  void check_divides(const char* what, int64_t size) const {
    check(size % slices == 0, "tensor_parallel: '", path, "' has ", size, " ", what, ", which ",
          slices, " slices do not divide");
  }
  // How many slices in a row attend to the same head of keys and values.
  int64_t kv_copies(int64_t kv_heads) const {
    check(kv_heads % slices == 0 || slices % kv_heads == 0, "tensor_parallel: '", path, "' has ",
          kv_heads, " heads of keys and values; ", slices,
          " slices neither divide these nor are a multiple of them");
    return kv_heads % slices == 0 ? 1 : slices / kv_heads;
  }
  [[noreturn]] void fail_cut(const char* what) const {
    fail("tensor_parallel: '", path, "' is a ", module.type_name(), ", which has no cut '",
         dist::name(cut), "'; ", what);
  }
  // A class that derives from Linear may compute more than its product, of which a slice has a
  // part.
  void check_plain() const {
    check(typeid(module) == typeid(nn::Linear), "tensor_parallel: '", path, "' is a ",
          module.type_name(),
          ", which derives from Linear and may compute something else; cut a "
          "Linear inside it");
  }
  void check_not_merged() const {
    const auto* linear = dynamic_cast<const nn::Linear*>(&module);
    check(linear == nullptr || !linear->has_merged_adapter(), "tensor_parallel: '", path,
          "' has an adapter that is merged into its weight; nn::unmerge_lora() takes it out, and "
          "nn::remove_lora() leaves plain weights");
  }
  // Appends a piece where the module has such a parameter.
  void add(std::vector<CutParameter>& pieces, const std::string& name, int dim,
           std::vector<int64_t> groups, std::vector<int> shares = {}) const {
    if (nn::Slot* found = slot(name))
      pieces.push_back({below(name), found, dim, std::move(groups), std::move(shares)});
  }
  // Appends a parameter that each slice needs whole.
  void add_whole(std::vector<CutParameter>& pieces, const std::string& name) const {
    if (nn::Slot* found = slot(name)) {
      pieces.push_back({below(name), found, 0, {whole_shape(found->tensor)[0]}, {1}});
    }
  }
};

// Of an adapter one matrix is cut as the weight is, and each slice needs the other whole.
Region column_region(const PlannedModule& entry, const std::vector<int64_t>& groups,
                     const std::vector<int>& shares = {}) {
  entry.check_not_merged();
  Region region{Region::Kind::column, entry.path, &entry.module};
  entry.add(region.pieces, "weight", 0, groups, shares);
  entry.add(region.pieces, "bias", 0, groups, shares);
  entry.add_whole(region.pieces, "lora_A");
  entry.add(region.pieces, "lora_B", 0, groups, shares);
  return region;
}

Region row_region(const PlannedModule& entry, int64_t in_features) {
  entry.check_not_merged();
  Region region{Region::Kind::row, entry.path, &entry.module};
  entry.add(region.pieces, "weight", 1, {in_features});
  entry.add(region.pieces, "lora_A", 1, {in_features});
  entry.add_whole(region.pieces, "lora_B");
  region.bias = entry.slot("bias");
  return region;
}

// The rows of a weight of attention that are cut each by themselves, and which slices share them.
struct HeadGroups {
  std::vector<int64_t> rows;
  std::vector<int> shares = {};  // empty: no slices share any
};

HeadGroups head_groups(const PlannedModule& entry, const nn::AttentionForm& attention,
                       const nn::HeadWeight& weight, int64_t rows) {
  const auto heads_of = [&](nn::Heads of) {
    return of == nn::Heads::queries ? attention.heads : attention.kv_heads;
  };
  int64_t heads = 0;
  for (const nn::Heads of : weight.rows) heads += heads_of(of);
  check(rows % heads == 0, "tensor_parallel: '", entry.below(weight.path), "' has ", rows,
        " rows, which its ", heads, " heads do not divide");
  HeadGroups groups;
  for (const nn::Heads of : weight.rows) {
    groups.rows.push_back(rows / heads * heads_of(of));
    if (of != nn::Heads::queries && entry.kv_copies(attention.kv_heads) > 1) {
      groups.shares.resize(weight.rows.size(), entry.slices);
    }
  }
  for (size_t i = 0; i < groups.shares.size(); ++i) {
    if (weight.rows[i] != nn::Heads::queries) {
      groups.shares[i] = static_cast<int>(attention.kv_heads);
    }
  }
  return groups;
}

// A layer whose whole forward is computed for each slice of its parameters.
Region inside_region(const PlannedModule& entry, const nn::AttentionForm& attention) {
  Region region{Region::Kind::inside, entry.path, &entry.module};
  for (const nn::HeadWeight& weight : attention.weights) {
    const nn::Slot* slot = entry.slot(weight.path);
    check(slot != nullptr, "tensor_parallel: the form of ", entry.module.type_name(), " '",
          entry.path, "' names '", weight.path,
          "', which is no parameter of it; name parameters alone, or Linears alone");
    const Shape whole = whole_shape(slot->tensor);
    if (weight.rows.empty()) {
      check(whole.size() == 2, "tensor_parallel: '", entry.below(weight.path), "' has shape ",
            whole, "; columns are those of a matrix");
      entry.add(region.pieces, weight.path, 1, {whole[1]});
    } else {
      const HeadGroups groups = head_groups(entry, attention, weight, whole[0]);
      entry.add(region.pieces, weight.path, 0, groups.rows, groups.shares);
    }
  }
  if (!attention.bias.empty()) {
    region.bias = entry.slot(attention.bias);
    check(region.bias != nullptr, "tensor_parallel: the form of ", entry.module.type_name(), " '",
          entry.path, "' names the bias '", attention.bias, "', which it has not");
  }
  return region;
}

// A parameter between projections that are cut would have the gradients of this rank's heads alone.
void check_cut(const std::vector<Region>& regions, size_t first, const PlannedModule& entry,
               const nn::ParallelForm& form) {
  std::set<const nn::Slot*> known;
  for (size_t i = first; i < regions.size(); ++i) {
    for (const CutParameter& piece : regions[i].pieces) known.insert(piece.slot);
    known.insert(regions[i].bias);
  }
  for (const std::string& path : form.by_position) {
    for (const auto& [name, slot] : entry.module.get_submodule(path).slots()) known.insert(slot);
  }
  for (const auto& [name, slot] : entry.module.slots()) {
    const auto& safe = form.position_parameters;
    check(slot->kind != nn::Slot::Kind::parameter || known.count(slot) > 0 ||
              std::find(safe.begin(), safe.end(), name) != safe.end(),
          "tensor_parallel: '", entry.below(name), "' is not among the weights that the form of ",
          entry.module.type_name(),
          " names, and would have the gradients of this rank's heads alone; name it there, or in "
          "by_position if it computes with what all ranks have");
  }
}

void add_heads(std::vector<Region>& regions, const PlannedModule& entry) {
  const std::optional<nn::ParallelForm> form = nn::parallel_form_of(entry.module);
  if (!form || !form->attention) entry.fail_cut("heads are those of attention");
  const nn::AttentionForm& attention = *form->attention;
  check(attention.heads > 0 && attention.kv_heads > 0 && attention.heads % attention.kv_heads == 0,
        "tensor_parallel: the form of ", entry.module.type_name(), " '", entry.path, "' has ",
        attention.heads, " heads and ", attention.kv_heads,
        " of keys and values, which must be positive and divide them");
  entry.check_divides("heads", attention.heads);
  const size_t first = regions.size();
  for (const nn::HeadWeight& weight : attention.weights) {
    if (entry.slot(weight.path) == nullptr) continue;
    regions.push_back(inside_region(entry, attention));
    check_cut(regions, first, entry, *form);
    return;
  }
  for (const nn::HeadWeight& weight : attention.weights) {
    nn::Module& child = entry.module.get_submodule(weight.path);
    const PlannedModule each = {entry.below(weight.path), child, entry.cut, entry.slices};
    const auto* linear = dynamic_cast<const nn::Linear*>(&child);
    if (linear == nullptr) each.fail_cut("what is cut by heads is a Linear or a parameter");
    each.check_plain();
    if (weight.rows.empty()) {
      regions.push_back(row_region(each, linear->in_features));
    } else {
      const HeadGroups groups = head_groups(entry, attention, weight, linear->out_features);
      regions.push_back(column_region(each, groups.rows, groups.shares));
    }
  }
  check_cut(regions, first, entry, *form);
}

void add_vocabulary(std::vector<Region>& regions, const PlannedModule& entry) {
  entry.check_not_merged();
  Region region{Region::Kind::logits, entry.path, &entry.module};
  if (auto* table = dynamic_cast<nn::Embedding*>(&entry.module)) {
    region.kind = Region::Kind::embedding;
    if (table->options().padding_idx || table->options().max_norm) {
      entry.fail_cut("its padding_idx and max_norm are of the whole table");
    }
  } else if (auto* linear = dynamic_cast<nn::Linear*>(&entry.module)) {
    if (linear->bias.defined()) entry.fail_cut("it has a bias; cut it colwise");
    entry.check_plain();
  } else {
    entry.fail_cut("a vocabulary is that of an Embedding or of a Linear");
  }
  const int64_t words = whole_shape(entry.slot("weight")->tensor)[0];
  check(words >= entry.slices, "tensor_parallel: '", entry.path, "' has ", words,
        " words, fewer than ", entry.slices, " slices");
  entry.add(region.pieces, "weight", 0, {words});
  entry.add_whole(region.pieces, "lora_A");
  entry.add(region.pieces, "lora_B", 0, {words});
  regions.push_back(std::move(region));
}

void add_linear(std::vector<Region>& regions, const PlannedModule& entry) {
  auto* linear = dynamic_cast<nn::Linear*>(&entry.module);
  if (linear == nullptr) entry.fail_cut("colwise and rowwise cut a Linear");
  entry.check_plain();
  if (entry.cut == Cut::colwise) {
    check(entry.parts > 0 && linear->out_features % entry.parts == 0, "tensor_parallel: '",
          entry.path, "' has ", linear->out_features, " outputs, which are not ", entry.parts,
          " equal parts");
    const int64_t size = linear->out_features / entry.parts;
    entry.check_divides("outputs", entry.parts == 1 ? linear->out_features : size);
    regions.push_back(
        column_region(entry, std::vector<int64_t>(static_cast<size_t>(entry.parts), size)));
  } else {
    entry.check_divides("inputs", linear->in_features);
    regions.push_back(row_region(entry, linear->in_features));
  }
}

// A parameter is in one region, and one that is tied in several that cut it alike.
void check_pieces(const std::vector<Region>& regions) {
  std::map<const nn::Slot*, std::string> cut;
  std::unordered_map<const detail::TensorImpl*, const CutParameter*> known;  // the first of each
  for (const Region& region : regions) {
    for (const CutParameter& piece : region.pieces) {
      check(cut.emplace(piece.slot, piece.name).second, "tensor_parallel: '", piece.name,
            "' is cut twice by the plan, with '", region.path, "' and with a module around it");
      const Tensor& leaf = piece.slot->tensor;
      check(partition(leaf) == nullptr && parameter_owner(leaf) == nullptr, "tensor_parallel: '",
            piece.name, "' is a shard already, ", describe_part(leaf),
            "; a module is cut once, and before fully_shard(), DDP or ZeRO");
      const CutParameter& other = *known.emplace(leaf.impl(), &piece).first->second;
      check(other.dim == piece.dim && other.groups == piece.groups && other.shares == piece.shares,
            "tensor_parallel: '", other.name, "' and '", piece.name,
            "' are one parameter and are cut differently; untie them");
    }
  }
}

// A tied parameter of which the plan cuts one place alone would be a part in the other, too.
void check_ties(nn::Module& module, const std::vector<Region>& regions) {
  std::unordered_set<const nn::Slot*> cut;
  std::unordered_map<const detail::TensorImpl*, const std::string*> names;  // the last of each
  for (const Region& region : regions) {
    for (const CutParameter& piece : region.pieces) {
      cut.insert(piece.slot);
      names[piece.slot->tensor.impl()] = &piece.name;
    }
  }
  for (const auto& [name, slot] : module.slots()) {
    const auto tied = names.find(slot->tensor.impl());
    const bool is_tied = tied != names.end();
    check(cut.contains(slot) || !is_tied, "tensor_parallel: '", is_tied ? *tied->second : name,
          "' is tied to '", name, "', which the plan does not cut; cut both alike, or untie them");
  }
}

}  // namespace

std::vector<Region> regions_of(nn::Module& module, const TensorPlan& plan, int slice_count) {
  const auto modules = module.named_modules();
  std::map<std::string, const TensorPlanEntry*> by;  // the path of a module that is cut
  std::vector<Region> regions;
  for (const TensorPlanEntry& planned : plan) {
    bool any = false;
    for (const auto& [path, found] : modules) {
      if (!matches(planned.path.c_str(), path.c_str())) continue;
      any = true;
      const auto [before, is_new] = by.emplace(path, &planned);
      check(is_new, "tensor_parallel: '", path, "' is cut twice, by '", before->second->path, "' (",
            name(before->second->cut), ") and '", planned.path, "' (", name(planned.cut), ")");
      const PlannedModule entry = {path, *found, planned.cut, slice_count, planned.parts};
      check(planned.parts == 1 || planned.cut == Cut::colwise, "tensor_parallel: '", path,
            "' is cut '", name(planned.cut), "', and parts are those of 'colwise'");
      if (planned.cut == Cut::heads) {
        add_heads(regions, entry);
      } else if (planned.cut == Cut::vocabulary) {
        add_vocabulary(regions, entry);
      } else {
        add_linear(regions, entry);
      }
    }
    if (!any) fail_unknown(planned.path, modules);
  }
  check_pieces(regions);
  check_ties(module, regions);
  return regions;
}

namespace {

bool is_within(const std::string& path, const std::string& above) {
  return path == above || is_below(path, above);
}

// A region for each module of a block that computes position by position and is not cut.
void add_norms(std::vector<Region>& regions, const std::string& path, nn::Module& block) {
  const std::optional<nn::ParallelForm> form = nn::parallel_form_of(block);
  const size_t cut = regions.size();
  const std::vector<std::string> paths = form ? form->by_position : std::vector<std::string>();
  for (size_t i = 0; i < paths.size(); ++i) {
    for (size_t j = 0; j < paths.size(); ++j) {
      check(i == j || !is_within(paths[i], paths[j]), "tensor_parallel: the form of ",
            block.type_name(), " '", path, "' has '", paths[i],
            "' in by_position twice, alone and "
            "with '",
            paths[j], "', and its gradients would be added up twice");
    }
  }
  for (const std::string& each : paths) {
    const std::string full = path + "." + each;
    bool is_cut = false;
    for (size_t i = 0; i < cut; ++i) {
      is_cut = is_cut || is_within(regions[i].path, full) || is_within(full, regions[i].path);
    }
    if (is_cut) continue;
    Region region{Region::Kind::norm, full, &block.get_submodule(each)};
    for (const auto& [name, slot] : region.module->slots()) region.shared.push_back(slot);
    regions.push_back(std::move(region));
  }
}

// What is neither cut nor computed position by position would have a part of its gradient alone.
void check_covered(const std::vector<Region>& regions, const std::string& path, nn::Module& block) {
  std::set<const nn::Slot*> covered;
  for (const Region& region : regions) {
    for (const CutParameter& piece : region.pieces) covered.insert(piece.slot);
    for (const nn::Slot* slot : region.shared) covered.insert(slot);
    covered.insert(region.bias);
  }
  for (const auto& [name, slot] : block.slots()) {
    check(slot->kind != nn::Slot::Kind::parameter || covered.count(slot) > 0,
          "tensor_parallel: with .sequence, '", path, ".", name,
          "' would be computed with at a part of the positions, and it is neither cut nor in a "
          "module that its block's nn::ParallelForm calls by_position");
  }
}

}  // namespace

void cut_sequence(nn::Module& module, std::vector<Region>& regions) {
  bool any = false;
  for (const auto& [path, found] : module.named_modules()) {
    const std::optional<nn::ParallelForm> form = nn::parallel_form_of(*found);
    if (!form || !form->stack) continue;
    any = true;
    const auto below = [&path = path](const std::string& name) {
      return path.empty() ? name : path + "." + name;
    };
    const nn::StackForm& stack = *form->stack;
    check(!stack.norm.empty(),
          "tensor_parallel: with .sequence, positions are joined by the norm "
          "after the last block, and the form of ",
          found->type_name(), " '", path, "' has none");
    for (Region& region : regions) {
      const bool inside = is_within(region.path, below(stack.blocks));
      region.sequence = region.sequence || inside;
    }
    bool is_first = true;
    for (const auto& [name, block] : nn::blocks_of(*found, stack)) {
      add_norms(regions, below(name), *block);
      check_covered(regions, below(name), *block);
      if (is_first) regions.push_back({Region::Kind::enter, below(name), block});
      is_first = false;
    }
    regions.push_back({Region::Kind::leave, below(stack.norm), &found->get_submodule(stack.norm)});
  }
  check(any,
        "tensor_parallel: .sequence is for an nn::GPT or nn::Llama, or another model whose "
        "nn::ParallelForm has a stack, which ",
        module.type_name(), " has not: it is known where their sequences are cut and joined");
}

void tell_sequence(nn::Module& module, int ranks) {
  for (nn::Module* found : module.modules()) {
    const std::optional<nn::ParallelForm> form = nn::parallel_form_of(*found);
    if (form && form->stack) dynamic_cast<nn::Parallelizable&>(*found).set_block_parts(ranks);
  }
}

void tell_heads(nn::Module& module, const TensorPlan& plan, int slice_count) {
  for (const auto& [path, found] : module.named_modules()) {
    for (const TensorPlanEntry& planned : plan) {
      if (planned.cut != Cut::heads || !matches(planned.path.c_str(), path.c_str())) continue;
      const PlannedModule entry = {path, *found, planned.cut, slice_count};
      auto& attention = dynamic_cast<nn::Parallelizable&>(*found);
      attention.set_kv_copies(entry.kv_copies(attention.parallel_form().attention->kv_heads));
    }
  }
}

std::string text_of(const std::vector<Region>& regions, int slice_count) {
  constexpr const char* kinds[] = {"column", "row",  "inside", "embedding",
                                   "logits", "norm", "enter",  "leave"};
  std::string text;
  for (const Region& region : regions) {
    const std::string kind = kinds[static_cast<int>(region.kind)];
    if (region.pieces.empty()) text += kind + " " + region.path + "\n";
    for (const CutParameter& piece : region.pieces) {
      text +=
          kind + " " + piece.text(slice_count) + (region.sequence ? " of a cut sequence\n" : "\n");
    }
  }
  return text;
}

}  // namespace hero::dist

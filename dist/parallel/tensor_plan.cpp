#include <algorithm>
#include <map>
#include <optional>

#include <hero/dist/parallel/tensor_plan.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>
#include <hero/nn/transformer.h>

namespace hero::dist {
namespace {

bool matches(const char* pattern, const char* path) {
  if (*pattern == '\0') return *path == '\0';
  if (*pattern != '*') return *pattern == *path && matches(pattern + 1, path + 1);
  for (const char* rest = path;; ++rest) {
    if (matches(pattern + 1, rest)) return true;
    if (*rest == '\0') return false;
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
    fail("tensor_parallel: '", path, "' is a ", module.type_name(), ", which cannot be cut by ",
         dist::name(cut), "; ", what);
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

// The shares of rows of keys, or of values, where slices are more than their heads.
std::vector<int> kv_shares(const PlannedModule& entry, int64_t kv_heads) {
  if (entry.kv_copies(kv_heads) == 1) return {};
  return {static_cast<int>(kv_heads)};
}

// The same of a weight of queries, keys and values.
std::vector<int> packed_shares(const PlannedModule& entry, int64_t kv_heads) {
  if (entry.kv_copies(kv_heads) == 1) return {};
  return {entry.slices, static_cast<int>(kv_heads), static_cast<int>(kv_heads)};
}

void add_heads(std::vector<Region>& regions, const PlannedModule& entry) {
  if (auto* attention = dynamic_cast<nn::CausalSelfAttention*>(&entry.module)) {
    entry.check_divides("heads", attention->n_head());
    const int64_t C = attention->c_proj.in_features;
    const int64_t rows = C / attention->n_head() * attention->n_kv_head();
    regions.push_back(
        column_region({entry.below("c_attn"), attention->c_attn, entry.cut, entry.slices},
                      {C, rows, rows}, packed_shares(entry, attention->n_kv_head())));
    regions.push_back(
        row_region({entry.below("c_proj"), attention->c_proj, entry.cut, entry.slices}, C));
    return;
  }
  if (auto* attention = dynamic_cast<nn::LlamaAttention*>(&entry.module)) {
    entry.check_divides("heads", attention->num_heads());
    const std::vector<int> shares = kv_shares(entry, attention->num_key_value_heads());
    for (nn::Linear* each : {&attention->q_proj, &attention->k_proj, &attention->v_proj}) {
      regions.push_back(column_region({entry.below(each->name()), *each, entry.cut, entry.slices},
                                      {each->out_features},
                                      each == &attention->q_proj ? std::vector<int>() : shares));
    }
    regions.push_back(
        row_region({entry.below("o_proj"), attention->o_proj, entry.cut, entry.slices},
                   attention->o_proj.in_features));
    return;
  }
  auto* attention = dynamic_cast<nn::MultiheadAttention*>(&entry.module);
  if (attention == nullptr) entry.fail_cut("heads are those of attention");
  entry.check_divides("heads", attention->num_heads());
  const std::vector<int> packed = packed_shares(entry, attention->num_kv_heads());
  const std::vector<int> shares = kv_shares(entry, attention->num_kv_heads());
  const int64_t E = attention->out_proj.in_features;
  const int64_t rows = E / attention->num_heads() * attention->num_kv_heads();
  Region region{Region::Kind::inside, entry.path, &entry.module};
  entry.add(region.pieces, "in_proj_weight", 0, {E, rows, rows}, packed);
  entry.add(region.pieces, "in_proj_bias", 0, {E, rows, rows}, packed);
  entry.add(region.pieces, "q_proj_weight", 0, {E});
  entry.add(region.pieces, "k_proj_weight", 0, {rows}, shares);
  entry.add(region.pieces, "v_proj_weight", 0, {rows}, shares);
  entry.add(region.pieces, "out_proj.weight", 1, {E});
  region.bias = entry.slot("out_proj.bias");
  regions.push_back(std::move(region));
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
    if (linear->bias.defined()) entry.fail_cut("it has a bias; cut it by rows");
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
  if (linear == nullptr) entry.fail_cut("rows and columns are those of a Linear");
  if (entry.cut == Cut::rows) {
    entry.check_divides("outputs", linear->out_features);
    regions.push_back(column_region(entry, {linear->out_features}));
  } else {
    entry.check_divides("inputs", linear->in_features);
    regions.push_back(row_region(entry, linear->in_features));
  }
}

// A parameter is in one region, and one that is tied in several that cut it alike.
void check_pieces(const std::vector<Region>& regions) {
  std::map<const nn::Slot*, std::string> cut;
  std::vector<std::pair<const CutParameter*, const Region*>> known;
  for (const Region& region : regions) {
    for (const CutParameter& piece : region.pieces) {
      check(cut.emplace(piece.slot, piece.name).second, "tensor_parallel: '", piece.name,
            "' is cut twice by the plan, with '", region.path, "' and with a module around it");
      const Tensor& leaf = piece.slot->tensor;
      check(partition(leaf) == nullptr && parameter_owner(leaf) == nullptr, "tensor_parallel: '",
            piece.name, "' is a shard already, ", describe_part(leaf),
            "; a module is cut once, and before fully_shard(), DDP or ZeRO");
      for (const auto& [other, where] : known) {
        const bool tied = is_same(other->slot->tensor, leaf);
        check(!tied || (other->dim == piece.dim && other->groups == piece.groups &&
                        other->shares == piece.shares),
              "tensor_parallel: '", other->name, "' and '", piece.name,
              "' are one parameter and are cut differently; untie them");
      }
      known.emplace_back(&piece, &region);
    }
  }
}

// A tied parameter of which the plan cuts one place alone would be a part in the other, too.
void check_ties(nn::Module& module, const std::vector<Region>& regions) {
  for (const auto& [name, slot] : module.slots()) {
    const std::string* tied = nullptr;
    bool here = false;
    for (const Region& region : regions) {
      for (const CutParameter& piece : region.pieces) {
        here = here || piece.slot == slot;
        if (is_same(piece.slot->tensor, slot->tensor)) tied = &piece.name;
      }
    }
    check(here || tied == nullptr, "tensor_parallel: '", tied ? *tied : name, "' is tied to '",
          name, "', which the plan does not cut; cut both alike, or untie them");
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
      const PlannedModule entry = {path, *found, planned.cut, slice_count};
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

// A model that knows where its sequence is cut and joined: its blocks, each with its norms, and the
// last norm.
struct SequenceModel {
  std::string blocks_path, last_path;
  std::vector<nn::Module*> blocks;
  std::vector<std::vector<nn::Module*>> norms;
  nn::Module* last;
};

std::optional<SequenceModel> sequence_model(const std::string& path, nn::Module& found) {
  const std::string before = path.empty() ? "" : path + ".";
  if (auto* gpt = dynamic_cast<nn::GPT*>(&found)) {
    SequenceModel model{
        before + "transformer.h", before + "transformer.ln_f", {}, {}, &gpt->transformer.ln_f};
    for (size_t i = 0; i < gpt->transformer.h.size(); ++i) {
      nn::Block& block = gpt->transformer.h[i];
      model.blocks.push_back(&block);
      model.norms.push_back({&block.ln_1, &block.ln_2});
    }
    return model;
  }
  if (auto* llama = dynamic_cast<nn::Llama*>(&found)) {
    SequenceModel model{before + "model.layers", before + "model.norm", {}, {}, &llama->model.norm};
    for (size_t i = 0; i < llama->model.layers.size(); ++i) {
      nn::LlamaDecoderLayer& layer = llama->model.layers[i];
      model.blocks.push_back(&layer);
      model.norms.push_back({&layer.input_layernorm, &layer.post_attention_layernorm});
    }
    return model;
  }
  return std::nullopt;
}

}  // namespace

void cut_sequence(nn::Module& module, std::vector<Region>& regions) {
  bool any = false;
  for (const auto& [path, found] : module.named_modules()) {
    const std::optional<SequenceModel> model = sequence_model(path, *found);
    if (!model) continue;
    any = true;
    for (Region& region : regions) {
      region.sequence = region.sequence || region.path.rfind(model->blocks_path + ".", 0) == 0;
    }
    for (size_t i = 0; i < model->blocks.size(); ++i) {
      const std::string block = model->blocks_path + "." + std::to_string(i);
      for (nn::Module* norm : model->norms[i]) {
        Region region{Region::Kind::norm, block + "." + norm->name(), norm};
        for (const auto& [name, slot] : norm->slots()) region.shared.push_back(slot);
        regions.push_back(std::move(region));
      }
      if (i == 0) regions.push_back({Region::Kind::enter, block, model->blocks[i]});
    }
    regions.push_back({Region::Kind::leave, model->last_path, model->last});
  }
  check(any, "tensor_parallel: .sequence is for an nn::GPT or nn::Llama, which ",
        module.type_name(), " has not: it is known where their sequences are cut and joined");
}

void tell_sequence(nn::Module& module, int ranks) {
  for (nn::Module* found : module.modules()) {
    if (auto* gpt = dynamic_cast<nn::GPT*>(found)) gpt->set_block_parts(ranks);
    if (auto* llama = dynamic_cast<nn::Llama*>(found)) llama->set_block_parts(ranks);
  }
}

void tell_heads(nn::Module& module, const TensorPlan& plan, int slice_count) {
  for (const auto& [path, found] : module.named_modules()) {
    for (const TensorPlanEntry& planned : plan) {
      if (planned.cut != Cut::heads || !matches(planned.path.c_str(), path.c_str())) continue;
      const PlannedModule entry = {path, *found, planned.cut, slice_count};
      if (auto* attention = dynamic_cast<nn::CausalSelfAttention*>(found)) {
        attention->set_kv_copies(entry.kv_copies(attention->n_kv_head()));
      } else if (auto* general = dynamic_cast<nn::MultiheadAttention*>(found)) {
        general->set_kv_copies(entry.kv_copies(general->num_kv_heads()));
      }
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

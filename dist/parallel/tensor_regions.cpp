// The communication of a region around its module's forward.
#include <hero/autograd/ops/collectives.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/functions/indexing.h>
#include <hero/dist/parallel/shown_slots.h>
#include <hero/dist/parallel/tensor_regions.h>

namespace hero::dist {
namespace {

using collectives::copy_in, collectives::sum_out;

constexpr int kPositions = -2;  // the dimension along which a sequence is cut

void check_gathered(const Region& region, const std::string& name, const nn::Slot& slot,
                    bool is_cut) {
  const Partition* part = partition(slot.tensor);
  const bool good =
      is_cut ? part != nullptr && part->first == 0 && !part->boxes.empty() &&
                   slot.tensor.numel() == layout::numel(part->whole, part->boxes)
             // in a pipeline, one box
             : part == nullptr || (!part->boxes.empty() && slot.tensor.shape() == part->whole);
  if (good) return;
  fail("tensor_parallel: ", name, " is not there as it was cut but ", describe_part(slot.tensor),
       "; call the module that was sharded, and make no module inside ", region.module->type_name(),
       " '", region.path, "' a unit of it");
}

// Of a whole parameter the shares that each slice has, which may be those of others, too.
std::vector<Tensor> shares_of(const Region& region, const CutParameter& piece,
                              const Slices& slices) {
  check_gathered(region, piece.name, *piece.slot, false);
  std::vector<Tensor> list = copy_in(piece.slot->tensor, slices.rank_group, slices.here());
  for (int i = 0; i < slices.here(); ++i) {
    Tensor& copy = list[static_cast<size_t>(i)];
    std::vector<Tensor> shares;
    int64_t begin = 0;
    for (size_t g = 0; g < piece.groups.size(); ++g) {
      const Chunk part = piece.share(g, slices.first() + i, slices.count);
      shares.push_back(copy.slice(piece.dim, begin + part.begin, begin + part.begin + part.count));
      begin += piece.groups[g];
    }
    copy = shares.size() == 1 ? shares[0] : cat(shares, piece.dim);
  }
  return list;
}

// A piece's slices, as tensors of their own that say nothing of the whole.
std::vector<Tensor> slices_of(const Region& region, const CutParameter& piece,
                              const Slices& slices) {
  if (piece.stays_whole()) return shares_of(region, piece, slices);
  check_gathered(region, piece.name, *piece.slot, true);
  const Tensor& all = piece.slot->tensor;
  if (slices.here() == 1) return {reshape(all, all.shape())};
  if (piece.dim == 1) return unbind(all);
  std::vector<int64_t> sizes;
  for (int i = slices.first(); i < slices.first() + slices.here(); ++i) {
    sizes.push_back(piece.size_of(i, slices.count));
  }
  return split(all, sizes, 0);
}

// The module's outputs of each slice.
std::vector<nn::Tensors> run_slices(const Region& region, const Slices& slices,
                                    const std::vector<nn::Tensors>& inputs,
                                    const nn::Forward& forward) {
  std::vector<std::vector<Tensor>> pieces;
  for (const CutParameter& piece : region.pieces)
    pieces.push_back(slices_of(region, piece, slices));
  std::vector<nn::Tensors> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ShownSlots shown;
    for (size_t p = 0; p < pieces.size(); ++p) shown.show(region.pieces[p].slot, pieces[p][i]);
    if (region.bias != nullptr) shown.show(region.bias, {});
    outputs.push_back(forward(inputs[i]));
  }
  return outputs;
}

// Whole inputs, for each slice: a tensor that is there several times stays one.
std::vector<nn::Tensors> copies_of(const nn::Tensors& in, const Region& region,
                                   const Slices& slices) {
  std::vector<nn::Tensors> inputs(static_cast<size_t>(slices.here()));
  for (size_t i = 0; i < in.size(); ++i) {
    size_t known = 0;
    while (known < i && !is_same(in[known], in[i])) ++known;
    std::vector<Tensor> copies;
    if (known == i) {
      copies = region.sequence
                   ? collectives::gather_in(in[i], kPositions, slices.rank_group, slices.here())
                   : copy_in(in[i], slices.rank_group, slices.here());
    }
    for (size_t s = 0; s < inputs.size(); ++s) {
      inputs[s].push_back(known == i ? copies[s] : inputs[s][known]);
    }
  }
  return inputs;
}

// The input is this rank's part: one of equal size for each slice.
std::vector<nn::Tensors> parts_of(const Tensor& x, const Region& region, const Slices& slices) {
  const int64_t size = region.pieces.front().size_of(slices.first(), slices.count);
  check(x.size(-1) == size * slices.here(), "tensor_parallel: the input of '", region.path,
        "' has shape ", x.shape(), ", but ", slices.here(), " of its ", slices.count,
        " slices take ", size * slices.here(),
        " columns; its input comes from a module that is cut colwise");
  if (slices.here() == 1) return {{x}};
  std::vector<nn::Tensors> inputs;
  for (const Tensor& part : split(x, size, -1)) inputs.push_back({part});
  return inputs;
}

// Slices' outputs side by side: of several groups those of the first before those of the second.
Tensor join_outputs(const Region& region, const Slices& slices,
                    const std::vector<nn::Tensors>& outputs) {
  if (slices.here() == 1) return outputs[0][0];
  const CutParameter& weight = region.pieces.front();
  const size_t groups = weight.groups.size();
  std::vector<Tensor> list(outputs.size() * groups);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::vector<int64_t> sizes;
    for (size_t g = 0; g < groups; ++g) {
      sizes.push_back(weight.share(g, slices.first() + static_cast<int>(i), slices.count).count);
    }
    const std::vector<Tensor> parts =
        groups == 1 ? std::vector<Tensor>{outputs[i][0]} : split(outputs[i][0], sizes, -1);
    for (size_t g = 0; g < parts.size(); ++g) list[g * outputs.size() + i] = parts[g];
  }
  return cat(list, -1);
}

// This rank's positions, in as many parts as it has slices.
std::vector<Tensor> positions_of(const Region& region, const Tensor& x, const Slices& slices) {
  if (slices.here() == 1) return {x};
  check(x.ndim() >= 2 && x.size(kPositions) % slices.here() == 0, "tensor_parallel: '", region.path,
        "' got ", x.shape(), ", whose positions, the last dimension but one, ", slices.here(),
        " slices of this rank do not divide; a module in by_position is called with [.., T, C]");
  return split(x, x.size(kPositions) / slices.here(), kPositions);
}

// Of a cut sequence each slice adds the bias to its positions, so that the gradient is a sum of
// slices, too.
Tensor add_bias(const Region& region, const Slices& slices, const Tensor& y) {
  check_gathered(region, region.path + ".bias", *region.bias, false);
  const Tensor bias = region.bias->tensor.to(y.dtype());
  if (!region.sequence) return y + bias;
  const std::vector<Tensor> copies = copy_in(bias, slices.rank_group, slices.here());
  std::vector<Tensor> parts = positions_of(region, y, slices);
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i] + copies[i];
  return parts.size() == 1 ? parts[0] : cat(parts, kPositions);
}

nn::Tensors run_norm(const Region& region, const Slices& slices, const nn::Tensors& in,
                     const nn::Forward& forward) {
  std::vector<std::vector<Tensor>> copies;
  for (const nn::Slot* slot : region.shared) {
    check_gathered(region, region.path + "." + slot->name, *slot, false);
    copies.push_back(copy_in(slot->tensor, slices.rank_group, slices.here()));
  }
  std::vector<Tensor> parts = positions_of(region, in[0], slices);
  for (size_t i = 0; i < parts.size(); ++i) {
    ShownSlots shown;
    for (size_t p = 0; p < copies.size(); ++p) shown.show(region.shared[p], copies[p][i]);
    parts[i] = forward({parts[i]})[0];
  }
  return {parts.size() == 1 ? parts[0] : cat(parts, kPositions)};
}

nn::Tensors run_enter(const Region& region, const Slices& slices, const nn::Tensors& in,
                      const nn::Forward& forward) {
  check(in.size() == 1, "tensor_parallel: with .sequence, '", region.path,
        "' takes the positions of one tensor, and it was called with ", in.size());
  check(in[0].ndim() == 3 && in[0].size(1) % slices.count == 0, "tensor_parallel: ", slices.count,
        " slices do not divide the sequence of ", in[0].shape(),
        "; pad it, or cut the model without .sequence");
  return forward({collectives::split(in[0], kPositions, slices.rank_group)});
}

nn::Tensors run_leave(const Slices& slices, const nn::Tensors& in, const nn::Forward& forward) {
  check(in[0].ndim() == 3, "tensor_parallel: ", in[0].shape(),
        " is no sequence [B, T, C]; generate with a model that was cut without .sequence");
  return forward({collectives::gather(in[0], kPositions, slices.rank_group)});
}

nn::Tensors run_linear(const Region& region, const Slices& slices, const nn::Tensors& in,
                       const nn::Forward& forward) {
  const bool takes_part = region.kind == Region::Kind::row;
  const auto inputs = takes_part ? parts_of(in[0], region, slices) : copies_of(in, region, slices);
  std::vector<nn::Tensors> outputs = run_slices(region, slices, inputs, forward);
  if (region.kind == Region::Kind::column) return {join_outputs(region, slices, outputs)};
  std::vector<Tensor> summands;
  for (const nn::Tensors& each : outputs) summands.push_back(each[0]);
  nn::Tensors result = outputs[0];
  result[0] = region.sequence ? collectives::scatter_out(summands, kPositions, slices.rank_group)
                              : sum_out(summands, slices.rank_group);
  if (region.bias != nullptr) result[0] = add_bias(region, slices, result[0]);
  return result;
}

// The interval of words that this rank has.
Chunk words_of(const CutParameter& piece, const Slices& slices) {
  const ChunkCounts counts = ChunkCounts::balanced(piece.groups.front(), slices.count);
  const Chunk first = counts.chunk(slices.first());
  const Chunk last = counts.chunk(slices.first() + slices.here() - 1);
  return {first.begin, last.begin + last.count - first.begin};
}

// Rows of words that others have are zeros here: sums with them are exact.
nn::Tensors run_embedding(const Region& region, const Slices& slices, const nn::Tensors& in,
                          const nn::Forward& forward) {
  const CutParameter& piece = region.pieces.front();
  check_gathered(region, piece.name, *piece.slot, true);
  const Chunk words = words_of(piece, slices);
  const Tensor index(core::checked_index("embedding", in[0].array(), piece.groups.front()));
  ShownSlots shown;
  shown.show(piece.slot, reshape(piece.slot->tensor, piece.slot->tensor.shape()));
  if (slices.group.size() == 1) return forward({index});
  const Tensor here = logical_and(index >= words.begin, index < words.begin + words.count);
  const Tensor rows = forward({where(here, index - words.begin, 0)})[0];
  return {sum_out(where(unsqueeze(here, -1), rows, 0), slices.rank_group)};
}

nn::Tensors run_logits(const Region& region, const Slices& slices, const nn::Tensors& in,
                       const nn::Forward& forward) {
  const Tensor mine = join_outputs(
      region, slices, run_slices(region, slices, copies_of(in, region, slices), forward));
  const Chunk words = words_of(region.pieces.front(), slices);
  const int64_t after = region.pieces.front().groups.front() - words.begin - words.count;
  return {sum_out(pad(mine, {words.begin, after}), slices.rank_group)};
}

nn::Tensors run_region(const Region& region, const Slices& slices, const nn::Tensors& in,
                       const nn::Forward& forward) {
  switch (region.kind) {
    case Region::Kind::embedding:
      return run_embedding(region, slices, in, forward);
    case Region::Kind::logits:
      return run_logits(region, slices, in, forward);
    case Region::Kind::norm:
      return run_norm(region, slices, in, forward);
    case Region::Kind::enter:
      return run_enter(region, slices, in, forward);
    case Region::Kind::leave:
      return run_leave(slices, in, forward);
    default:
      return run_linear(region, slices, in, forward);
  }
}

// The outputs are those of a rank's slices, or at its positions.
bool divides(const Region& region) {
  switch (region.kind) {
    case Region::Kind::column:
    case Region::Kind::norm:
    case Region::Kind::enter:
      return true;
    default:
      return region.sequence;
  }
}

}  // namespace

void install(const Region& region, const Slices& slices) {
  const auto wrapper = [region, slices](nn::Module&, const nn::Tensors& in,
                                        const nn::Forward& forward) -> nn::Tensors {
    slices.draws->begin_region(region.path);
    nn::Tensors out = run_region(region, slices, in, forward);
    slices.draws->end_region(region.path, divides(region));
    return out;
  };
  // A loss that reads the logits' weight joins the ranks itself.
  region.module->register_forward_wrapper(wrapper,
                                          {.for_parameters = region.kind == Region::Kind::logits});
}

}  // namespace hero::dist

// How a parameter becomes the boxes of a rank's slices.
#include <hero/core/device/backend.h>
#include <hero/dist/parallel/tensor_regions.h>

namespace hero::dist {
namespace {

std::vector<Box> boxes_of(const CutParameter& piece, const Shape& whole, const Slices& slices) {
  std::vector<Box> boxes;
  for (int i = slices.first(); i < slices.first() + slices.here(); ++i) {
    int64_t begin = 0;
    for (size_t g = 0; g < piece.groups.size(); ++g) {
      const Chunk part = piece.share(g, i, slices.count);
      Box box = {Shape::filled(whole.size(), 0), whole};
      box.offset[piece.dim] = begin + part.begin;
      box.extent[piece.dim] = part.count;
      boxes.push_back(box);
      begin += piece.groups[g];
    }
  }
  return boxes;
}

// Boxes of columns lie one behind the other, so several of them are one dimension more.
Shape shape_of(const CutParameter& piece, const Shape& whole, const Slices& slices) {
  Shape shape = whole;
  shape[piece.dim] = 0;
  for (int i = slices.first(); i < slices.first() + slices.here(); ++i) {
    shape[piece.dim] += piece.size_of(i, slices.count);
  }
  if (piece.dim == 0 || slices.here() == 1) return shape;
  return {slices.here(), whole[0], shape[1] / slices.here()};
}

void copy_boxes(const Array& whole, const std::vector<Box>& boxes, const Array& target) {
  int64_t at = 0;
  const Array flat = target.reshape({target.numel()});
  for (const Box& box : boxes) {
    Array from = whole;
    for (int d = 0; d < box.extent.size(); ++d) {
      from = from.slice(d, box.offset[d], box.offset[d] + box.extent[d]);
    }
    const int64_t count = box.extent.numel();
    if (count > 0) {
      core::backend(whole.device())
          .run(core::call::Copy{from, flat.slice(0, at, at + count).reshape(box.extent)});
    }
    at += count;
  }
}

}  // namespace

Chunk CutParameter::share(size_t group, int i, int slice_count) const {
  const int count = stays_whole() ? shares[group] : slice_count;
  return ChunkCounts::balanced(groups[group], count)
      .chunk(static_cast<int>(int64_t{i} * count / slice_count));
}

int64_t CutParameter::size_of(int i, int slice_count) const {
  int64_t sum = 0;
  for (size_t g = 0; g < groups.size(); ++g) sum += share(g, i, slice_count).count;
  return sum;
}

std::string CutParameter::text(int slice_count) const {
  std::string sizes;
  for (size_t g = 0; g < groups.size(); ++g) {
    sizes += (g == 0 ? "" : ", ") + std::to_string(groups[g]);
    if (stays_whole()) sizes += " in " + std::to_string(shares[g]) + " shares";
  }
  return name + " " + hero::name(slot->tensor.dtype()) + " " +
         to_string(whole_shape(slot->tensor)) + ": " + (dim == 0 ? "rows " : "columns ") + sizes +
         " in " + std::to_string(slice_count) + " slices";
}

void cut(const CutParameter& piece, const Slices& slices) {
  const Tensor& leaf = piece.slot->tensor;
  if (piece.stays_whole()) return;
  if (partition(leaf) != nullptr) return;  // tied to one that was cut alike
  const Array whole = leaf.array();
  Partition place = {whole.shape(), boxes_of(piece, whole.shape(), slices), 0, slices.rank_group};
  const MemoryScope tag(MemoryTag::parameter);
  const bool meta = leaf.device().type == DeviceType::meta;
  const LedgerScope ledger(meta ? whole.storage().ledger() : current_ledger());
  const Array part =
      Array::empty(shape_of(piece, whole.shape(), slices), leaf.dtype(), leaf.device());
  if (!meta) copy_boxes(whole, place.boxes, part);
  set_part(leaf, part, std::make_shared<const Partition>(std::move(place)));
}

}  // namespace hero::dist

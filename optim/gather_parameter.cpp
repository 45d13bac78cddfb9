#include <hero/autograd/sharding/layout.h>
#include <hero/core/device/backend.h>
#include <hero/optim/gather_parameter.h>
#include <hero/optim/rank_groups.h>

namespace hero::optim {

namespace {

// Calls copy(elements of the part, elements of the whole), both flat, for every run of the leaf.
template <class Copy>
void each_run(const Partition& partition, const Array& part, const Array& whole, Copy&& copy) {
  layout::Runs runs(partition.whole, partition.boxes, partition.first, part.numel());
  const Array from = part.reshape({part.numel()}), to = whole.reshape({whole.numel()});
  for (layout::Run run; runs.next(run);) {
    copy(from.slice(0, run.part, run.part + run.count),
         to.slice(0, run.whole, run.whole + run.count));
  }
}

}  // namespace

Array gathered(const char* optimizer, const Tensor& leaf, const Array& part) {
  const Partition* cut = partition(leaf);
  if (!cut) return part;
  if (!cut->group) check_whole(optimizer, {leaf});
  constexpr int64_t kWord = sizeof(int64_t);
  const int64_t bytes = cut->whole.numel() * item_size(part.dtype());
  const Array words = Array::zeros({(bytes + kWord - 1) / kWord}, kInt64, part.device());
  const Array whole(words.storage_ref(), {cut->whole.numel()}, {1}, 0, part.dtype());
  each_run(*cut, part.contiguous(), whole, [](const Array& from, const Array& to) {
    core::backend(to.device()).run(core::call::Copy{from, to});
  });
  cut->group->add_up(words);
  return whole.reshape(cut->whole);
}

Array own_part(const Tensor& leaf, const Array& whole) {
  const Partition* cut = partition(leaf);
  if (!cut) return whole;
  const Array part = Array::empty(leaf.shape(), whole.dtype(), whole.device());
  each_run(*cut, part, whole.contiguous(), [](const Array& to, const Array& from) {
    core::backend(to.device()).run(core::call::Copy{from, to});
  });
  return part;
}

}  // namespace hero::optim

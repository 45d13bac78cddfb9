#include "exercises/12_ddp/exercise.h"
#include "exercises/support/under_way.h"

namespace exercise {

using hero::Array, hero::Tensor;

Array pack(const std::vector<Tensor>& parameters) {
  const hero::NoGrad no_grad;
  std::vector<Tensor> pieces;
  for (const Tensor& p : parameters) {
    hero::check(
        p.grad().defined(), "pack: a parameter of shape ", p.shape(),
        " has no gradient yet: the count of complete gradients has to reach the number of the "
        "bucket's parameters, and begins anew in every step");
    pieces.push_back(p.grad().flatten());
  }
  const hero::MemoryScope scope(hero::MemoryTag::communication);
  return cat(pieces).array();
}

void unpack(const Array& packed, const std::vector<Tensor>& parameters) {
  hero::check(packed.defined(),
              "unpack: the array is undefined: pack the gradients when the last of the bucket is "
              "complete, and keep the array in bucket.packed until finish()");
  const auto* under_way = dynamic_cast<const UnderWay*>(hero::core::observer);
  hero::check(
      under_way == nullptr || under_way->count() == 0 || under_way->complete() > 0,
      "unpack: the Work of none of the calls has been waited for, so the array is no mean yet: it "
      "has this rank's own gradients, or is half done. Keep the Work that all_reduce returns in "
      "bucket.work (who drops it can never wait), and call bucket.work.wait() before unpack()");
  const hero::NoGrad no_grad;
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    p.grad().copy_(Tensor(packed.slice(0, at, at + p.numel()).reshape(p.shape())));
    at += p.numel();
  }
}

}  // namespace exercise

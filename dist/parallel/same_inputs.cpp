#include <bit>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <hero/autograd/sharding/partition.h>
#include <hero/core/io/crc32c.h>
#include <hero/dist/parallel/same_inputs.h>
#include <hero/nn/hooks.h>

namespace hero::dist {
namespace {

uint32_t hash_of(const Array& values, uint32_t before = 0) {
  const Array here = values.contiguous();
  return core::crc32c({here.bytes(), static_cast<size_t>(here.nbytes())}, before);
}

std::string hash_text(uint32_t hash) {
  char text[16];
  (void)std::snprintf(text, sizeof(text), "hash %08x", hash);
  return text;
}

bool compares(const Communicator& group) {
  return group.size() > 1 && group.backend_kind() != BackendKind::simulated;
}

// Boxes differ from rank to rank, and shards may, since they are parts of flat parameters that
// contain boxes. All other parameters are the same on all ranks before the first step, and after a
// step unless a rank's gradient was only a part of the whole gradient.
void declare_values(const nn::Module& module, const Communicator& group, const char* what,
                    uint64_t forwards) {
  uint32_t hash = 0;
  for (const Tensor& p : module.parameters()) {
    if (p.device() != kCpu || p.array().storage().released()) return;
    if (partition(p) == nullptr) hash = hash_of(p.array(), hash);
  }
  const std::string first = " begins with uncut parameters of ";
  const std::string later = ", forward " + std::to_string(forwards) +
                            ": a parameter that is not cut is the same on all ranks, unless its "
                            "module computes with what is cut and no form says so; here they have ";
  group.declare(what + (forwards == 1 ? first : later) + hash_text(hash));
}

}  // namespace

void declare_same(const Communicator& group, const char* what, const Tensor& x) {
  if (!compares(group) || nn::WithoutHooks::active()) return;
  if (!x.defined() || x.device() != kCpu || is_floating(x.dtype())) return;
  group.declare(std::string("give ") + what + " " + to_string(x.dtype()) + " " +
                to_string(x.shape()) + " of " + hash_text(hash_of(x.array())));
}

void declare_same_inputs(nn::Module& module, const Communicator& group, const char* what) {
  if (!compares(group)) return;
  const auto forwards = std::make_shared<uint64_t>(0);
  module.register_forward_pre_hook(
      [group, what, forwards](nn::Module& called, const nn::Tensors& inputs) {
        // The first one, the second, the fourth and so on: of many steps it costs nothing.
        if (std::has_single_bit(++*forwards)) declare_values(called, group, what, *forwards);
        for (const Tensor& x : inputs) declare_same(group, what, x);
      },
      {.for_parameters = true});
}

}  // namespace hero::dist

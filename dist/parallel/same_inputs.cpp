#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <hero/autograd/leaves/partition.h>
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

// Boxes differ from rank to rank, and shards may: they are parts of rows that contain boxes.
void declare_first_values(const nn::Module& module, const Communicator& group, const char* what) {
  uint32_t hash = 0;
  for (const Tensor& p : module.parameters()) {
    if (p.device() != kCpu || p.array().storage().released()) return;
    if (partition(p) == nullptr) hash = hash_of(p.array(), hash);
  }
  group.declare(std::string(what) + " begins with uncut parameters of " + hash_text(hash));
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
  const auto begun = std::make_shared<bool>(false);
  module.register_forward_pre_hook(
      [group, what, begun](nn::Module& called, const nn::Tensors& inputs) {
        if (!std::exchange(*begun, true)) declare_first_values(called, group, what);
        for (const Tensor& x : inputs) declare_same(group, what, x);
      },
      {.for_parameters = true});
}

}  // namespace hero::dist

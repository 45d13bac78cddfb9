// Checkpoints of states on a device that a thread writes.
#include <filesystem>
#include <map>
#include <string>

#include "cuda/deferred.h"
#include "cuda/gpu.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>
#include <hero/nn/linear.h>
#include <hero/nn/training/background_save.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero_test;

namespace {

std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = slurp(entry.path().string());
  }
  return files;
}

}  // namespace

TEST_CASE("states on a device are copied to pinned memory and written beside the training") {
  HERO_NEEDS_GPU();
#if defined(HERO_TEST_CUSIM)
  const Deferred deferred;
#endif
  const TempDir dir;
  nn::Linear model(40, 40);
  model.to(kGpu);
  optim::AdamW adamw(model.parameters(), {.lr = 0.1});
  const auto step = [&] {
    adamw.zero_grad();
    square(model(ones({2, 40}, {.device = kGpu}))).mean().backward();
    adamw.step();
  };
  step();
  nn::Checkpointer at_once(dir / "at once"), later(dir / "later");
  for (nn::Checkpointer* checkpoint : {&at_once, &later}) {
    checkpoint->track("model", model);
    checkpoint->track("optimizer", adamw);
  }
  at_once.save(1);
  later.save(1, {.async = true});
  for (int i = 0; i < 3; ++i) step();
  later.wait();
  CHECK((files_below(later.folder(1)) == files_below(at_once.folder(1))));

  std::vector<core::NamedArray> arrays = {{"w", model.weight.array()}};
  Ledger ledger;
  const LedgerScope scope(ledger);
  nn::take_copies(arrays);
  CHECK(cuda::is_pinned(arrays[0].array));
  CHECK(ledger.live(MemoryTag::other) == model.weight.array().nbytes());
  CHECK(arrays[0].array.to_vector<float>() == model.weight.to_vector<float>());
  arrays.clear();
}

#include <algorithm>
#include <exception>
#include <utility>

#include <hero/dist/parallel/gradient_sync.h>

namespace hero::dist {

std::vector<std::shared_ptr<ShardedModule>> sharded_modules_of(
    const std::vector<StageValue>& values) {
  std::vector<std::shared_ptr<ShardedModule>> all;
  for (const StageValue& value : values) {
    auto replica = std::dynamic_pointer_cast<ShardedModule>(parameter_owner(value.leaf()));
    if (replica && std::find(all.begin(), all.end(), replica) == all.end()) {
      all.push_back(std::move(replica));
    }
  }
  return all;
}

KeepGathered::KeepGathered(std::vector<std::shared_ptr<ShardedModule>> replicas)
    : replicas_(std::move(replicas)) {
  std::erase_if(replicas_, [](const auto& replica) { return replica->reshards_after_forward(); });
  for (const auto& replica : replicas_) replica->keep_gathered(true);
}

void KeepGathered::end() {
  for (const auto& replica : replicas_) replica->keep_gathered(false);
  for (const auto& replica : std::exchange(replicas_, {})) replica->reset();
}

KeepGathered::~KeepGathered() {
  try {
    end();
  } catch (const std::exception&) {
    // A gathering that is under way has failed; the Error of that call is already being thrown.
  }
}

GradientSync::GradientSync(std::vector<std::shared_ptr<ShardedModule>> replicas, int chunks)
    : replicas_(std::move(replicas)), one_chunk_(chunks == 1) {
  std::erase_if(replicas_, [](const auto& replica) { return !replica->sync(); });
  if (!one_chunk_) whole_.emplace();
}

GradientSync::~GradientSync() {
  for (const auto& replica : replicas_) {
    if (by_module_) replica->set_sync_only({&replica->module()});
    replica->set_sync(true);
  }
}

void GradientSync::add_up() {
  for (const auto& replica : replicas_) replica->set_sync(false);
  if (!whole_) whole_.emplace();
}

void GradientSync::average(const std::vector<nn::Module*>& modules) {
  for (const auto& replica : replicas_) replica->set_sync_only(modules);
  by_module_ = true;
  for (const auto& replica : replicas_) replica->set_sync(true);
}

void GradientSync::average_all() {
  if (one_chunk_) whole_.reset();
  for (const auto& replica : replicas_) {
    if (by_module_) replica->set_sync_only({&replica->module()});
    replica->set_sync(true);
  }
}

void GradientSync::end() {
  if (whole_) whole_->average();
  whole_.reset();
  for (const auto& replica : replicas_) replica->schedule().average_unreduced();
}

}  // namespace hero::dist

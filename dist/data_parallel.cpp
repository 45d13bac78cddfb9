#include <hero/dist/data_parallel.h>

namespace hero::dist {

FullParameters::FullParameters(std::shared_ptr<Replica> replica, const SummonOptions& options)
    : replica_(std::move(replica)), writeback_(options.writeback) {
  replica_->settle();
  if (!replica_->shards()) return;
  for (const auto& unit : replica_->units()) rows_.push_back(unit->gather_row());
  replica_->show(rows_);
}

FullParameters::~FullParameters() {
  if (!replica_->shards()) return;
  for (size_t i = 0; i < rows_.size() && writeback_; ++i) {
    replica_->units()[i]->scatter_row(rows_[i]);
  }
  replica_->hide();
}

NoSync::NoSync(std::shared_ptr<Replica> replica)
    : replica_(std::move(replica)), previous_(replica_->sync()) {
  replica_->set_sync(false);
}

NoSync::~NoSync() { replica_->set_sync(previous_); }

std::vector<Tensor> DataParallel::parameters() const {
  std::vector<Tensor> list;
  const auto known = [&](const Tensor& tensor) {
    for (const Tensor& other : list) {
      if (is_same(other, tensor)) return true;
    }
    return false;
  };
  for (const auto& [name, slot] : module().slots()) {
    if (slot->kind != nn::Slot::Kind::parameter || !slot->tensor.defined()) continue;
    const Tensor leaf = replica_->leaf_of(*slot);
    if (!known(leaf)) list.push_back(leaf);
  }
  return list;
}

nn::StateDict DataParallel::full_state_dict() const {
  const FullParameters full(replica_, {.writeback = false});
  nn::StateDict dict = module().state_dict();
  for (auto& entry : dict) entry.array = entry.array.clone();
  return dict;
}

std::vector<UnitInfo> DataParallel::units() const {
  std::vector<UnitInfo> list;
  for (const auto& unit : replica_->units()) {
    UnitInfo info = {unit->name(), unit->numel(), unit->own(), {}};
    for (const Member& member : unit->members()) info.parameters.push_back(member.name);
    list.push_back(std::move(info));
  }
  return list;
}

DataParallel make_data_parallel(std::shared_ptr<Replica> replica) {
  return DataParallel(std::move(replica));
}

}  // namespace hero::dist

#include <utility>

#include <hero/core/error.h>
#include <hero/core/io/swap_worker.h>
#include <hero/core/profile/transfers.h>
#include <hero/core/swap_file.h>

namespace hero::core {

SwapFile::SwapFile(const std::string& folder, const SwapOptions& options)
    : worker_(std::make_shared<SwapWorker>(folder, options)) {}
SwapFile::~SwapFile() = default;

const std::string& SwapFile::folder() const { return worker_->folder(); }
int64_t SwapFile::bytes() const { return worker_->bytes(); }
int64_t SwapFile::used() const { return worker_->used(); }
int64_t SwapFile::read_bytes() const { return worker_->read_bytes(); }
int64_t SwapFile::written_bytes() const { return worker_->written_bytes(); }
bool SwapFile::direct() const { return worker_->direct(); }
int SwapFile::descriptor() const { return worker_->descriptor(); }

struct Swapped::Slot {
  std::shared_ptr<SwapWorker> worker;  // kept as long as there is a slot, whoever ends first
  Ref<Storage> storage;
  int64_t bytes;  // of the slot
  SwapJob job;
  bool begun = false;     // a transfer that nobody has waited for
  bool stored = false;    // the slot holds the storage's bytes
  int64_t transfer = -1;  // of a storage on meta, what the thread's meter calls it

  bool planned() const { return storage->device().type == DeviceType::meta; }
  // A slot of a plan is taken, or given back.
  void hold(int64_t change) const {
    if (planned() && transfer_meter != nullptr) transfer_meter->hold_in_file(change);
  }

  // Ends the transfer that was begun; what failed, or "".
  std::string finish() {
    if (!begun) return {};
    begun = false;
    if (planned() && transfer_meter != nullptr) transfer_meter->wait_transfer(transfer);
    std::string error = planned() ? std::string() : worker->wait(job);
    if (job.writing) {
      stored = error.empty();
      if (stored) storage->release();
    } else if (!error.empty()) {
      storage->release();
      stored = false;
    }
    return error;
  }
  void begin(bool writing) {
    job.data = storage->data();
    job.writing = writing;
    planned() ? count(writing) : worker->begin(job);
    begun = true;
  }
  void count(bool writing) {
    worker->count(writing, bytes);
    const Transfer way = writing ? Transfer::to_disk : Transfer::from_disk;
    transfer = transfer_meter != nullptr ? transfer_meter->begin_transfer(way, bytes) : -1;
  }
};

Swapped::Swapped(SwapFile& file, Ref<Storage> storage) {
  const bool planned = storage->device().type == DeviceType::meta;
  check(storage->device() == kCpu || planned,
        "swap file: only storages on the cpu can lie there, not on ", storage->device());
  check(planned || !file.worker_->planned(), "swap file: a planned one has no room for bytes on ",
        storage->device(), "; make it without .planned, or simulate on meta");
  const int64_t bytes = whole_blocks(storage->bytes());
  SwapJob job;
  job.bytes = storage->bytes();
  job.first = bytes > 0 ? file.worker_->take(bytes) : 0;
  slot_ = std::make_unique<Slot>(Slot{file.worker_, std::move(storage), bytes, std::move(job)});
  slot_->hold(bytes);
}

Swapped::~Swapped() {
  slot_->finish();
  slot_->hold(-slot_->bytes);
  if (slot_->bytes > 0) slot_->worker->give_back(slot_->job.first, slot_->bytes);
}

const Ref<Storage>& Swapped::storage() const { return slot_->storage; }

void Swapped::begin_write() {
  wait();
  if (slot_->storage->released()) return;
  slot_->begin(true);
}

void Swapped::drop() {
  wait();
  check(slot_->stored, "swap file in ", slot_->worker->folder(), ": drop: the slot of ",
        bytes_text(slot_->storage->bytes()), " holds nothing; write it first");
  slot_->storage->release();
}

void Swapped::begin_read() {
  wait();
  if (!slot_->storage->released()) return;
  check(slot_->stored, "swap file in ", slot_->worker->folder(), ": read: the slot of ",
        bytes_text(slot_->storage->bytes()), " holds nothing");
  slot_->storage->refill();
  slot_->begin(false);
}

void Swapped::wait() {
  const std::string error = slot_->finish();
  check(error.empty(), "swap file in ", slot_->worker->folder(), ": ", error);
}

}  // namespace hero::core

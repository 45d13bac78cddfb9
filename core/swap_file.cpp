#include <utility>

#include <hero/core/error.h>
#include <hero/core/io/swap_worker.h>
#include <hero/core/swap_file.h>

namespace hero::core {

SwapFile::SwapFile(const std::string& folder, const SwapOptions& options)
    : worker_(std::make_unique<SwapWorker>(folder, options)) {}
SwapFile::~SwapFile() = default;

const std::string& SwapFile::folder() const { return worker_->folder(); }
int64_t SwapFile::bytes() const { return worker_->bytes(); }
int64_t SwapFile::used() const { return worker_->used(); }
int64_t SwapFile::read_bytes() const { return worker_->read_bytes(); }
int64_t SwapFile::written_bytes() const { return worker_->written_bytes(); }
bool SwapFile::direct() const { return worker_->direct(); }
int SwapFile::descriptor() const { return worker_->descriptor(); }

struct Swapped::Slot {
  SwapWorker& worker;
  Ref<Storage> storage;
  int64_t bytes;  // of the slot
  SwapJob job;
  bool begun = false;   // a transfer that nobody has waited for
  bool stored = false;  // the slot holds the storage's bytes

  // Ends the transfer that was begun; what failed, or "".
  std::string finish() {
    if (!begun) return {};
    begun = false;
    std::string error = worker.wait(job);
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
    worker.begin(job);
    begun = true;
  }
};

Swapped::Swapped(SwapFile& file, Ref<Storage> storage) {
  check(storage->device() == kCpu, "swap file: only storages on the cpu can lie there, not on ",
        storage->device());
  const int64_t bytes = whole_blocks(storage->bytes());
  SwapJob job;
  job.bytes = storage->bytes();
  job.first = bytes > 0 ? file.worker_->take(bytes) : 0;
  slot_ = std::make_unique<Slot>(Slot{*file.worker_, std::move(storage), bytes, std::move(job)});
}

Swapped::~Swapped() {
  slot_->finish();
  if (slot_->bytes > 0) slot_->worker.give_back(slot_->job.first, slot_->bytes);
}

const Ref<Storage>& Swapped::storage() const { return slot_->storage; }

void Swapped::begin_write() {
  wait();
  if (slot_->storage->released()) return;
  slot_->begin(true);
}

void Swapped::drop() {
  wait();
  check(slot_->stored, "swap file in ", slot_->worker.folder(), ": drop: the slot of ",
        bytes_text(slot_->storage->bytes()), " holds nothing; write it first");
  slot_->storage->release();
}

void Swapped::begin_read() {
  wait();
  if (!slot_->storage->released()) return;
  check(slot_->stored, "swap file in ", slot_->worker.folder(), ": read: the slot of ",
        bytes_text(slot_->storage->bytes()), " holds nothing");
  slot_->storage->refill();
  slot_->begin(false);
}

void Swapped::wait() {
  const std::string error = slot_->finish();
  check(error.empty(), "swap file in ", slot_->worker.folder(), ": ", error);
}

}  // namespace hero::core

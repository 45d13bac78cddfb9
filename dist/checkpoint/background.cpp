#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/printable.h>
#include <hero/dist/backends/notices.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/background.h>
#include <hero/nn/training/checkpoint_folder.h>

namespace hero::dist {
namespace {

namespace checkpoints = nn::checkpoints;

std::string note_file(const std::string& folder, const std::string& token, int rank) {
  return folder + "/rank-" + std::to_string(rank) + "." + token;
}

// Calls body; what it throws, with the step, and without it what is not to be known.
template <class Body>
auto with_step(int64_t step, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    fail("checkpoint: saving step ", step, " in the background: ", error.what());
  }
}

}  // namespace

// What the thread and its rank tell each other.
struct BackgroundSave::Shared {
  Target target;
  Snapshot snapshot;
  int ranks = 1;

  std::mutex mutex;
  std::condition_variable changed;
  bool written = false;  // this rank's files, or it has failed
  std::string text;      // of this rank for the manifest
  std::string error;
  std::vector<std::string> texts;  // of all ranks, from finish()
  bool given_up = false;

  void end_writing(std::string own, std::string said) {
    const std::lock_guard guard(mutex);
    text = std::move(own);
    error = std::move(said);
    written = true;
    changed.notify_all();
  }
  std::string wait_until_written() {
    std::unique_lock guard(mutex);
    changed.wait(guard, [&] { return written; });
    check(error.empty(), error);
    return text;
  }
};

BackgroundSave::BackgroundSave(const Communicator& world, const TrackedList& tracked, Target target)
    : world_(world), shared_(std::make_shared<Shared>()), exceptions_(std::uncaught_exceptions()) {
  shared_->target = std::move(target);
  shared_->ranks = size_of(world);
  shared_->snapshot = take_snapshot(world, tracked);
  try {
    agree(world, [&] {
      work_ = std::make_unique<nn::BackgroundWork>(
          "checkpoint", [shared = shared_](const auto& hurried) { run(*shared, hurried); });
    });
  } catch (...) {
    give_up();
    throw;
  }
}

BackgroundSave::~BackgroundSave() {
  if (!finished_ && work_->is_mine() && std::uncaught_exceptions() <= exceptions_) finish();
  if (!finished_) give_up();
  if (!failure_ || rank_of(world_) != 0) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", printable(error.what()).c_str());
  }
}

// On the thread.
void BackgroundSave::run(Shared& shared, const nn::BackgroundWork::Hurried& hurried) {
  const Target& target = shared.target;
  std::string text;
  try {
    text = write_files(target.folder, shared.snapshot);
  } catch (const std::exception& error) {
    return shared.end_writing("", error.what());
  }
  if (shared.snapshot.rank > 0) {
    try {
      OutputFile note(note_file(target.folder, shared.snapshot.token, shared.snapshot.rank),
                      {.in_new_folder = true});
      note.write(text);
      note.commit();
    } catch (const Error&) {
      // A disk without room for it; rank 0 hears of this rank in finish().
    }
    return shared.end_writing(std::move(text), "");
  }
  shared.end_writing(std::move(text), "");
  Manifest manifest = manifest_of(shared.snapshot, gather(shared, hurried));
  manifest.step = target.step;
  for (int rank = 1; rank < shared.ranks; ++rank) {
    std::error_code ignored;  // a note that stays is no part of the checkpoint
    std::filesystem::remove(note_file(target.folder, shared.snapshot.token, rank), ignored);
  }
  checkpoints::rename_into_place(target.root, target.step, to_text(manifest));
  tell_saved(target.step);
  checkpoints::prune(target.root, target.step, target.keep);
}

// All ranks' texts, from their notes or from finish().
std::vector<std::string> BackgroundSave::gather(Shared& shared,
                                                const nn::BackgroundWork::Hurried& hurried) {
  constexpr std::chrono::milliseconds kPause{10};
  std::vector<std::string> texts = {shared.text};
  for (int rank = 1; rank < shared.ranks; ++rank) {
    const std::string note = note_file(shared.target.folder, shared.snapshot.token, rank);
    while (!path_exists(note)) {
      std::unique_lock guard(shared.mutex);
      if (!shared.texts.empty()) return shared.texts;
      check(!shared.given_up && !hurried(), "it was given up while rank ", rank, " was writing");
      shared.changed.wait_for(guard, kPause);
    }
    texts.push_back(read_file_text(note));
  }
  return texts;
}

void BackgroundSave::give_up() {
  if (!work_ || !work_->is_mine()) return;
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->given_up = true;
  }
  shared_->changed.notify_all();
  (void)work_->wait();
}

void BackgroundSave::wait_for_all() {
  const int64_t step = shared_->target.step;
  const std::vector<std::string> texts = each_rank(
      world_, [&] { return with_step(step, [&] { return shared_->wait_until_written(); }); });
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->texts = texts;
  }
  shared_->changed.notify_all();
  agree(world_, [&] {
    const std::string error = work_->wait();
    with_step(step, [&] { check(error.empty(), error); });
  });
}

void BackgroundSave::finish() {
  if (finished_) return;
  finished_ = true;
  if (!work_->is_mine()) return;
  try {
    wait_for_all();
  } catch (...) {
    failure_ = std::current_exception();
    give_up();
    std::error_code ignored;
    if (rank_of(world_) == 0) std::filesystem::remove_all(shared_->target.folder, ignored);
  }
}

std::exception_ptr BackgroundSave::take_failure() { return std::exchange(failure_, nullptr); }

}  // namespace hero::dist

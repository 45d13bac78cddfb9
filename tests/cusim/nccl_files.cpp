#include "nccl_files.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace cusim::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// What stands before the bytes of a file: the two ends must ask for the same.
struct Head {
  Kind kind;
  ncclDataType_t type;
  ncclRedOp_t op;
  uint64_t count;
};

Head head_of(const Item& item) {
  return {item.is_message() ? Kind::send : item.kind, item.type, item.op, item.count};
}

// Whether bytes go from one of the two ranks to the other.
bool moves(const Item& item, int from, int to) {
  switch (item.kind) {
    case Kind::send:
      return from == item.rank && to == item.peer;
    case Kind::recv:
      return from == item.peer && to == item.rank;
    case Kind::broadcast:
      return from == item.peer;
    case Kind::reduce:
      return to == item.peer;
    default:
      return true;
  }
}

// A rank writes and takes the file of a message to itself.
bool goes(const Item& item, int rank, int to) {
  return (to != rank || item.kind == Kind::send) && moves(item, rank, to);
}
bool comes(const Item& item, int from, int rank) {
  return (from != rank || item.kind == Kind::recv) && moves(item, from, rank);
}

void write_file(const std::string& path, const Head& head, const void* bytes, size_t count) {
  {
    std::ofstream file(path + ".part", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&head), sizeof(head));
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
    if (!file.flush()) fail("cannot write " + path);
  }
  std::filesystem::rename(path + ".part", path);
}

std::vector<char> take_file(const std::string& path, const Head& expected) {
  Head head{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&head), sizeof(head));
  std::vector<char> bytes(std::filesystem::file_size(path) - sizeof(head));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) fail("cannot read " + path);
  if (head.kind != expected.kind) fail("ranks ask for different calls");
  if (head.count != expected.count || head.type != expected.type || head.op != expected.op) {
    fail("ranks ask for calls of different sizes, types or sums");
  }
  std::filesystem::remove(path);
  return bytes;
}

// Under the lock of the world, as all that follows.
std::vector<Files*>& open() {
  static auto* const all = new std::vector<Files*>;
  return *all;
}

double patience() {
  const char* const text = std::getenv("HERO_TIMEOUT");
  return text != nullptr && *text != '\0' ? std::atof(text) : 600.0;
}

void idle(Clock::time_point since) {
  for (Files* each : open()) each->move_on();
  if (!is_patient() && std::chrono::duration<double>(Clock::now() - since).count() > patience()) {
    std::string what = "the host waits in vain:";
    for (const Files* each : open()) what += each->missing();
    fail(what);
  }
  world().pause(std::chrono::microseconds(20));
}

// The thread of the process that moves its calls on.
class Mover {
 public:
  Mover() {
    thread_ = std::thread([this] {
      while (!stop_) {
        {
          const std::lock_guard lock(world());
          for (Files* each : open()) each->move_on();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  }
  ~Mover() {
    stop_ = true;
    thread_.join();
  }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

const char* Files::folder() {
  const char* const text = std::getenv("HERO_CUSIM_NCCL");
  return text != nullptr && *text != '\0' ? text : nullptr;
}

Files::Files(std::string id, int rank, int size)
    : id_(std::move(id)), rank_(rank), size_(size), come_(static_cast<size_t>(size)) {
  const std::lock_guard lock(world());
  for (const Files* each : open()) {
    if (each->id_ == id_) fail("HERO_CUSIM_NCCL is for ranks that are processes, one each");
  }
  open().push_back(this);
  set_idle(&idle);
  for (int i = 0; i < size_; ++i) {
    if (i != rank_) write_file(path("join", rank_, i), {}, nullptr, 0);
  }
  static Mover mover;
}

std::string Files::path(const std::string& what, int from, int to) const {
  return std::string(folder()) + "/" + id_ + "." + what + "." + std::to_string(from) + "." +
         std::to_string(to);
}

std::string Files::path(const Item& item, int from, int to) const {
  return path((item.is_message() ? "m" : "c") + std::to_string(item.number), from, to);
}

bool Files::joined() {
  for (int i = 0; i < size_; ++i) {
    if (i == rank_ || come_[static_cast<size_t>(i)]) continue;
    const std::string file = path("join", i, rank_);
    if (!std::filesystem::exists(file)) return false;
    take_file(file, {});
    come_[static_cast<size_t>(i)] = true;
  }
  return true;
}

void Files::tell(size_t number, std::pair<int, int> color_and_key) {
  const int words[] = {color_and_key.first, color_and_key.second};
  for (int i = 0; i < size_; ++i) {
    if (i == rank_) continue;
    write_file(path("split" + std::to_string(number), rank_, i), {}, words, sizeof(words));
  }
  own_split_ = color_and_key;
}

bool Files::told(size_t number, std::vector<std::pair<int, int>>& all) {
  std::vector<std::string> files;
  for (int i = 0; i < size_; ++i) {
    files.push_back(path("split" + std::to_string(number), i, rank_));
    if (i != rank_ && !std::filesystem::exists(files.back())) return false;
  }
  for (int i = 0; i < size_; ++i) {
    auto& said = all[static_cast<size_t>(i)];
    said = own_split_;
    if (i == rank_) continue;
    const std::vector<char> bytes = take_file(files[static_cast<size_t>(i)], {});
    std::memcpy(&said.first, bytes.data(), sizeof(int));
    std::memcpy(&said.second, bytes.data() + sizeof(int), sizeof(int));
  }
  return true;
}

void Files::ask(const std::vector<ItemPtr>& items) {
  const cudaStream_t stream = items.front()->stream;
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    fail("between processes calls need a stream that was made");
  }
  for (const ItemPtr& item : items) {
    if (item->stream != stream) fail("a group on two streams");
    if (item->comm != items.front()->comm) fail("between processes a group is of one communicator");
    const bool sends = item->kind == Kind::send;
    const std::pair ends = !item->is_message() ? std::pair(-1, -1)
                           : sends             ? std::pair(rank_, item->peer)
                                               : std::pair(item->peer, rank_);
    // of a message to itself a rank has both ends
    item->number =
        next_[item->kind == Kind::recv && item->peer == rank_ ? std::pair(-1, 0) : ends]++;
  }
  const auto self = shared_from_this();
  const auto held = [items] { return std::any_of(items.begin(), items.end(), is_held); };
  enqueue_when(
      "nccl", stream, [held] { return !held(); },
      [self, items] {
        for (const ItemPtr& item : items) self->send(item);
      },
      true);
  enqueue_when(
      "nccl", stream,
      [self, items] {
        return std::all_of(items.begin(), items.end(),
                           [&](const ItemPtr& item) { return self->here(item); });
      },
      [self, items] {
        for (const ItemPtr& item : items) self->receive(item);
      },
      true);
  under_way_.push_back({stream, stream->asked, items});
}

void Files::send(const ItemPtr& item) const {
  if (aborted_) return;
  const size_t parts = item->kind == Kind::reduce_scatter ? static_cast<size_t>(size_) : 1;
  for (int i = 0; i < size_; ++i) {
    if (!goes(*item, rank_, i)) continue;
    write_file(path(*item, rank_, i), head_of(*item), item->from, parts * bytes_of(*item));
  }
}

bool Files::here(const ItemPtr& item, std::string* who) const {
  bool all = true;
  for (int i = 0; i < size_ && !aborted_; ++i) {
    if (!comes(*item, i, rank_)) continue;
    if (std::filesystem::exists(path(*item, i, rank_))) continue;
    all = false;
    if (who != nullptr) *who += " rank " + std::to_string(i);
  }
  return all;
}

void Files::receive(const ItemPtr& item) const {
  if (aborted_) return;
  std::vector<std::vector<char>> come(static_cast<size_t>(size_));
  std::vector<ItemPtr> all;
  for (int i = 0; i < size_; ++i) {
    all.push_back(i == rank_ ? item : std::make_shared<Item>(*item));
    if (!comes(*item, i, rank_)) continue;
    std::vector<char>& bytes = come[static_cast<size_t>(i)];
    bytes = take_file(path(*item, i, rank_), head_of(*item));
    all.back()->from = bytes.data();
    if (item->kind == Kind::recv && !bytes.empty()) {
      std::memcpy(item->to, bytes.data(), bytes.size());
    }
  }
  if (!item->is_message()) perform(all, rank_);
  item->done = true;
}

void Files::move_on() {
  while (!under_way_.empty() && go_on(under_way_.front().stream, under_way_.front().position)) {
    under_way_.pop_front();
  }
}

std::string Files::missing() const {
  for (const UnderWay& each : under_way_) {
    for (const ItemPtr& item : each.items) {
      std::string who;
      if (!here(item, &who)) {
        return " rank " + std::to_string(rank_) + " of " + id_ + " in " +
               kKinds[static_cast<int>(item->kind)] + " for" + who;
      }
    }
  }
  return "";
}

void Files::finish() {
  while (!under_way_.empty()) {
    drain(under_way_.front().stream);
    move_on();
  }
  close();
}

void Files::abort() {
  aborted_ = true;
  under_way_.clear();
  close();
}

void Files::close() {
  std::erase(open(), this);
  const std::string mine = "." + std::to_string(rank_);
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(id_ + ".", 0) == 0 && name.ends_with(mine)) std::filesystem::remove(entry);
  }
}

}  // namespace cusim::nccl

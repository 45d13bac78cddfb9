#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/threads/at_fork.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/digest.h>
#include <hero/dist/backends/mpi/transport.h>

#ifdef HERO_HAS_MPI
#include <mpi.h>
#endif

namespace hero::dist {

#ifndef HERO_HAS_MPI

bool has_mpi() { return false; }

Transport& mpi_transport(void (*)()) {
  require_backend(BackendKind::mpi);
  fail("mpi: not in this build");
}

#else

bool has_mpi() { return true; }

namespace {

constexpr int64_t kMessage = int64_t{1} << 30;  // bytes; MPI counts in int
constexpr int kTextTag = 0;

void mpi_check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("mpi: ", what, ": ", std::string(text, static_cast<size_t>(length)));
}

// The type in which MPI adds up; MPI_DATATYPE_NULL for dtypes that it does not know.
MPI_Datatype mpi_type(DType dtype) {
  if (dtype == kBool || dtype == kUInt8) return MPI_UINT8_T;
  if (dtype == kInt32) return MPI_INT32_T;
  if (dtype == kInt64) return MPI_INT64_T;
  if (dtype == kFloat32) return MPI_FLOAT;
  if (dtype == kFloat64) return MPI_DOUBLE;
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(ReduceOp op, DType dtype) {
  if (dtype == kBool) {  // bytes of 0 and 1
    return op == ReduceOp::sum || op == ReduceOp::max ? MPI_MAX : MPI_MIN;
  }
  switch (op) {
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::sum:
    case ReduceOp::mean:
      break;
  }
  return MPI_SUM;
}

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &texts_), "MPI_Comm_dup");
    mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &data_), "MPI_Comm_dup");
    mpi_check(MPI_Comm_set_errhandler(texts_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mpi_check(MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Comm_rank(data_, &rank_);
    MPI_Comm_size(data_, &size_);
    MPI_Comm host = MPI_COMM_NULL;
    mpi_check(MPI_Comm_split_type(data_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type");
    MPI_Comm_size(host, &local_size_);
    MPI_Comm_rank(host, &local_rank_);
    find_hosts(host);
    MPI_Comm_free(&host);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  std::span<const int> hosts() const override { return hosts_; }

  void tell(int to, std::string text) override {
    texts_sent_.push_back({std::move(text), MPI_REQUEST_NULL});
    Text& sent = texts_sent_.back();
    mpi_check(MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE, to,
                        kTextTag, texts_, &sent.request),
              "MPI_Isend");
  }

  void keep(int from, std::string text) override { kept_.emplace_back(from, std::move(text)); }
  bool told() const override { return texts_sent_.empty(); }

  bool hear(int& from, std::string& text) override {
    if (!kept_.empty()) {
      from = kept_.front().first;
      text = std::move(kept_.front().second);
      kept_.pop_front();
      return true;
    }
    int there = 0, bytes = 0;
    MPI_Status status;
    mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, kTextTag, texts_, &there, &status), "MPI_Iprobe");
    if (there == 0) return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    from = status.MPI_SOURCE;
    text.resize(static_cast<size_t>(bytes));
    mpi_check(MPI_Recv(text.data(), bytes, MPI_BYTE, from, kTextTag, texts_, MPI_STATUS_IGNORE),
              "MPI_Recv");
    return true;
  }

  void send(int to, int tag, const std::byte* data, int64_t bytes, int& pending) override {
    for (int64_t begin = 0; begin < bytes; begin += kMessage) {
      mpi_check(MPI_Isend(data + begin, static_cast<int>(std::min(kMessage, bytes - begin)),
                          MPI_BYTE, to, tag, data_, begin_request(pending, to)),
                "MPI_Isend");
    }
  }

  void receive(int from, int tag, std::byte* data, int64_t bytes, int& pending) override {
    for (int64_t begin = 0; begin < bytes; begin += kMessage) {
      mpi_check(MPI_Irecv(data + begin, static_cast<int>(std::min(kMessage, bytes - begin)),
                          MPI_BYTE, from, tag, data_, begin_request(pending, from)),
                "MPI_Irecv");
    }
  }

  std::vector<int> unfinished() const override {
    const std::set<int> ranks(peers_.begin(), peers_.end());
    return {ranks.lower_bound(0), ranks.end()};
  }

  void make_group(uint64_t id, std::span<const int> members) override {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_group(data_, &all);
    mpi_check(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some),
              "MPI_Group_incl");
    mpi_check(MPI_Comm_create_group(data_, some, 0, &comm), "MPI_Comm_create_group");
    mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    groups_[id] = comm;
    group_count_ = static_cast<int>(groups_.size());
  }
  bool has_group(uint64_t id) const override { return groups_.count(id) > 0; }

  void free_group(uint64_t id) override {
    const auto found = groups_.find(id);
    MPI_Comm comm = found->second;
    groups_.erase(found);
    group_count_ = static_cast<int>(groups_.size());
    mpi_check(MPI_Comm_free(&comm), "MPI_Comm_free");
  }
  int groups() const override { return group_count_.load(); }

  void reduce(uint64_t group, const Call& call, std::span<const int> counts,
              int& pending) override {
    const MPI_Comm comm = groups_.at(group);
    const MPI_Datatype type = mpi_type(call.dtype);
    const MPI_Op op = mpi_op(call.reduce, call.dtype);
    int me = 0;
    MPI_Comm_rank(comm, &me);
    const int size = static_cast<int>(call.size);
    MPI_Request* const request = begin_request(pending, -1);
    if (call.op == Collective::all_reduce) {
      mpi_check(MPI_Iallreduce(MPI_IN_PLACE, call.output, size, type, op, comm, request),
                "MPI_Iallreduce");
    } else if (call.op == Collective::reduce) {
      const void* input = me == call.root ? MPI_IN_PLACE : call.input;
      mpi_check(MPI_Ireduce(input, call.output, size, type, op, call.root, comm, request),
                "MPI_Ireduce");
    } else {
      mpi_check(
          MPI_Ireduce_scatter(call.input, call.output, counts.data(), type, op, comm, request),
          "MPI_Ireduce_scatter");
    }
  }

  bool poll() override {
    while (!texts_sent_.empty()) {
      int done = 0;
      mpi_check(MPI_Test(&texts_sent_.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) break;
      texts_sent_.pop_front();
    }
    if (requests_.empty()) return false;
    const int active = static_cast<int>(requests_.size());
    int ended = 0;
    indices_.resize(requests_.size());
    mpi_check(MPI_Testsome(active, requests_.data(), &ended, indices_.data(), MPI_STATUSES_IGNORE),
              "MPI_Testsome");
    if (ended <= 0) return false;
    for (int i = 0; i < ended; ++i)
      --*pending_[static_cast<size_t>(indices_[static_cast<size_t>(i)])];
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      peers_[kept] = peers_[i];
      pending_[kept++] = pending_[i];
    }
    requests_.resize(kept);
    peers_.resize(kept);
    pending_.resize(kept);
    return true;
  }

  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }

 private:
  struct Text {
    std::string bytes;
    MPI_Request request;
  };

  // `host`: the processes of this host.
  void find_hosts(MPI_Comm host) {
    int first = rank_;
    mpi_check(MPI_Bcast(&first, 1, MPI_INT, 0, host), "MPI_Bcast");
    const char* const said = std::getenv("HERO_HOST");
    const bool named = said != nullptr && *said != '\0';
    const Digest mine = named ? Digest().put(std::string(said))
                              : Digest().put(std::string()).put(static_cast<uint64_t>(first));
    std::vector<Digest> all(static_cast<size_t>(size_));
    mpi_check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, data_),
              "MPI_Allgather");
    std::map<Digest, int> numbers;
    for (const Digest& one : all) {
      hosts_.push_back(numbers.try_emplace(one, static_cast<int>(numbers.size())).first->second);
    }
  }

  // `peer`: -1 where it is no single rank
  MPI_Request* begin_request(int& pending, int peer) {
    ++pending;
    peers_.push_back(peer);
    pending_.push_back(&pending);
    requests_.push_back(MPI_REQUEST_NULL);
    return &requests_.back();
  }

  MPI_Comm texts_ = MPI_COMM_NULL, data_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, local_size_ = 1, local_rank_ = 0;
  std::vector<int> hosts_;
  std::deque<Text> texts_sent_;
  std::deque<std::pair<int, std::string> > kept_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // peers_[i] and pending_[i] belong to requests_[i]
  std::vector<int*> pending_;
  std::vector<int> indices_;
  std::map<uint64_t, MPI_Comm> groups_;
  std::atomic<int> group_count_{0};
};

// MPI can be initialised once in a process, so this lives until the process ends.
struct Library {
  std::unique_ptr<MpiTransport> transport;
  void (*at_exit)() = nullptr;
  bool ours = false;
};

Library& library() {
  static auto* const instance = new Library;
  return *instance;
}
[[maybe_unused]] const bool kLibraryAtFork = core::at_fork([] { library(); });  // see [note: forks]

void finalize() {
  Library& mpi = library();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  mpi.at_exit();
  if (mpi.ours) MPI_Finalize();
}

}  // namespace

Transport& mpi_transport(void (*at_exit)()) {
  Library& mpi = library();
  int initialized = 0, finalized = 0, level = 0;
  MPI_Finalized(&finalized);
  check(finalized == 0, "mpi: MPI has been finalised; it cannot be begun again in a process");
  if (mpi.transport) return *mpi.transport;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    MPI_Query_thread(&level);
  } else {
    mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    mpi.ours = true;
  }
  mpi.at_exit = at_exit;
  std::atexit(finalize);
  check(level >= MPI_THREAD_SERIALIZED,
        "mpi: this MPI lets only the main thread call it; initialise it with "
        "MPI_THREAD_SERIALIZED, or install one that supports that");
  mpi.transport = std::make_unique<MpiTransport>();
  return *mpi.transport;
}

#endif

}  // namespace hero::dist

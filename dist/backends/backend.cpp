#include <atomic>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/mpi/transport.h>

namespace hero::dist {

namespace {
std::atomic<NcclBackendMaker> nccl_backend = nullptr;
}  // namespace

void set_nccl_backend(NcclBackendMaker make) { nccl_backend = make; }

std::shared_ptr<Backend> make_nccl_backend(std::shared_ptr<Backend> host, int local_rank,
                                           int local_size, const Timeouts& timeouts) {
  require_backend(BackendKind::nccl);
  return nccl_backend.load()(std::move(host), local_rank, local_size, timeouts);
}

// A program may declare any number of things before it makes a call: long texts become a hash.
void Backend::declare(const std::string& what) {
  constexpr size_t kMost = 500;
  if (declared_.size() > kMost) {
    declared_ = "what has the hash " + std::to_string(Digest().put(declared_).low);
  }
  declared_ += (declared_.empty() ? "" : ", ") + what;
}

const char* name(BackendKind kind) {
  constexpr const char* names[] = {"local", "simulated", "mpi", "nccl"};
  return names[static_cast<int>(kind)];
}

BackendKind parse_backend(const std::string& text) {
  for (const BackendKind kind :
       {BackendKind::local, BackendKind::simulated, BackendKind::mpi, BackendKind::nccl}) {
    if (text == name(kind)) return kind;
  }
  fail("backend: unknown name '", core::cut_text(text), "'; use local, simulated, mpi or nccl");
}

void require_backend(BackendKind kind) {
  check(kind != BackendKind::mpi || has_mpi(),
        "backend: this build has no mpi backend; install Debian's libopenmpi-dev openmpi-bin and "
        "build "
        "again, or run the ranks as threads with --ranks N");
  check(kind != BackendKind::nccl || nccl_backend.load() != nullptr,
        "backend: this build has no nccl backend, which needs the CUDA toolkit and NCCL's nccl.h; "
        "run "
        "the ranks as threads with --ranks N");
}

}  // namespace hero::dist

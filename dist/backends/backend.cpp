#include <atomic>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/mpi/transport.h>

namespace hero::dist {

namespace {
std::atomic<NcclEngineMaker> nccl_engine = nullptr;
}  // namespace

void set_nccl_engine(NcclEngineMaker make) { nccl_engine = make; }

std::shared_ptr<Engine> make_nccl_engine(std::shared_ptr<Engine> host, int local_rank,
                                         int local_size, const Timeouts& timeouts) {
  require_engine(EngineKind::nccl);
  return nccl_engine.load()(std::move(host), local_rank, local_size, timeouts);
}

// A program may declare any number of things before it makes a call: long texts become a hash.
void Engine::declare(const std::string& what) {
  constexpr size_t kMost = 500;
  if (declared_.size() > kMost) {
    declared_ = "what has the hash " + std::to_string(Digest().put(declared_).low);
  }
  declared_ += (declared_.empty() ? "" : ", ") + what;
}

const char* name(EngineKind kind) {
  constexpr const char* names[] = {"local", "simulated", "mpi", "nccl"};
  return names[static_cast<int>(kind)];
}

EngineKind parse_engine(const std::string& text) {
  for (const EngineKind kind :
       {EngineKind::local, EngineKind::simulated, EngineKind::mpi, EngineKind::nccl}) {
    if (text == name(kind)) return kind;
  }
  fail("engine: unknown name '", core::cut_text(text), "'; use local, simulated, mpi or nccl");
}

void require_engine(EngineKind kind) {
  check(
      kind != EngineKind::mpi || has_mpi(),
      "engine: this build has no mpi engine; install Debian's libopenmpi-dev openmpi-bin and build "
      "again, or run the ranks as threads with --ranks N");
  check(
      kind != EngineKind::nccl || nccl_engine.load() != nullptr,
      "engine: this build has no nccl engine, which needs the CUDA toolkit and NCCL's nccl.h; run "
      "the ranks as threads with --ranks N");
}

}  // namespace hero::dist

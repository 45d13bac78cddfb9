#include <hero/core/error.h>
#include <hero/dist/engine.h>
#include <hero/dist/mpi_transport.h>

namespace hero::dist {

const char* name(EngineKind kind) {
  constexpr const char* names[] = {"local", "simulated", "mpi", "nccl"};
  return names[static_cast<int>(kind)];
}

EngineKind parse_engine(const std::string& text) {
  for (const EngineKind kind :
       {EngineKind::local, EngineKind::simulated, EngineKind::mpi, EngineKind::nccl}) {
    if (text == name(kind)) return kind;
  }
  fail("engine: unknown name '", text, "'; use local, simulated, mpi or nccl");
}

void require_engine(EngineKind kind) {
  check(
      kind != EngineKind::mpi || has_mpi(),
      "engine: this build has no mpi engine; install Debian's libopenmpi-dev openmpi-bin and build "
      "again, or run the ranks as threads with --ranks N");
  check(kind != EngineKind::nccl,
        "engine: this build has no nccl engine, which needs the CUDA backend and NCCL; run the "
        "ranks as threads with --ranks N");
}

}  // namespace hero::dist

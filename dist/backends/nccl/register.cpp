// How launch() and run_ranks() find the engine: they ask for what is registered here.
#include <hero/dist/backends/nccl/backend.h>

extern "C" {
// The linker is told to look for this symbol, and with it takes the registration along.
int hero_nccl_registered = [] {
  hero::dist::set_nccl_engine(&hero::dist::nccl::make_engine);
  return 1;
}();
}

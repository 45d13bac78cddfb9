// How launch() and run_ranks() find the backend: they ask for what is registered here.
#include <hero/dist/backends/nccl/backend.h>

extern "C" {
// The linker is told to look for this symbol, and with it takes the registration along.
int hero_nccl_registered = [] {
  hero::dist::set_nccl_backend(&hero::dist::nccl::make_backend);
  return 1;
}();
}

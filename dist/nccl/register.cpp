// How launch() and run_ranks() find the engine: they ask for what is registered here.
#include <hero/core/error.h>
#include <hero/cuda/cuda.h>
#include <hero/dist/nccl/engine.h>

namespace hero::dist::nccl {
namespace {

std::shared_ptr<Engine> make(std::shared_ptr<Engine> host, int local_rank, int local_size,
                             double timeout) {
  const int count = cuda::device_count();
  check(count > 0, "engine: nccl needs GPUs: ", cuda::reason());
  check(local_size <= count, "engine: nccl gives every rank a GPU, and ", local_size,
        " ranks of this machine have ", count,
        "; start fewer, or let threads share a GPU with --engine local");
  return make_engine(std::move(host), {DeviceType::cuda, static_cast<int8_t>(local_rank)}, timeout);
}

}  // namespace
}  // namespace hero::dist::nccl

extern "C" {
// The linker is told to look for this symbol, and with it takes the registration along.
int hero_nccl_registered = [] {
  hero::dist::set_nccl_engine(&hero::dist::nccl::make);
  return 1;
}();
}

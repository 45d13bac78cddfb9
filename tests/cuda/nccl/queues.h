#pragma once
// Hardware queues of GPUs, and ranks that share a GPU.
#include <string>

#include "cuda/nccl/nccl_ranks.h"
#ifdef HERO_TEST_CUSIM
#include <cusim_device.h>
#endif

namespace hero_test {

#ifdef HERO_TEST_CUSIM
/// While it lives a GPU has so many hardware queues, and its user says so.
class Queues {
 public:
  explicit Queues(int count)
      : said_("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(count).c_str()),
        before_(cusim::set_hardware_queues(count)) {}
  ~Queues() { cusim::set_hardware_queues(before_); }
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

 private:
  const EnvironmentVariable said_;
  const int before_;
};
#else
struct Queues {
  explicit Queues(int) {}
};
#endif

/// While it lives ranks may share GPUs, which have all the queues that there are, and whose kernels
/// are loaded before: those of two ranks wait for each other, so their streams must not share a
/// queue, and no kernel may be loaded meanwhile.
class SharedGPUs {
  const Queues queues_{32};
  const EnvironmentVariable shared_{"NCCL_MULTI_RANK_GPU_ENABLE", "1"};
  const EnvironmentVariable loaded_{"CUDA_MODULE_LOADING", "EAGER"};
};

}  // namespace hero_test

#include <cerrno>
#include <cstring>

#include <sched.h>

#include <hero/core/error.h>
#include <hero/core/threads/cores.h>

namespace hero::core {

namespace {

// The cores from before the OnCore of this thread; null where it has none.
thread_local const std::vector<int>* cores_before = nullptr;

bool bind_thread(const std::vector<int>& cores) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace

std::vector<int> usable_cores() {
  if (cores_before != nullptr) return *cores_before;
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  check(known, "cores: the system does not say which ones there are: ", std::strerror(errno));
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

OnCore::OnCore(int core) : before_(usable_cores()) {
  check(cores_before == nullptr, "cores: this thread is bound to one already");
  check(core >= 0 && core < CPU_SETSIZE, "cores: cannot bind a thread to ", core, ": ",
        std::strerror(EINVAL));
  const bool bound = bind_thread({core});
  check(bound, "cores: cannot bind a thread to ", core, ": ", std::strerror(errno));
  cores_before = &before_;
}

OnCore::~OnCore() {
  cores_before = nullptr;
  bind_thread(before_);
}

void run_on(const std::vector<int>& cores) noexcept {
  if (!cores.empty()) bind_thread(cores);
}

std::vector<int> cores_for_started() {
  return cores_before != nullptr ? *cores_before : std::vector<int>();
}

}  // namespace hero::core

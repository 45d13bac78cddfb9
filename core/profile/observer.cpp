#include <hero/core/profile/observer.h>

namespace hero::core {

constinit thread_local Observer* observer = nullptr;

}  // namespace hero::core

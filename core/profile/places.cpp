#include <hero/core/profile/places.h>

namespace hero::core {

constinit std::atomic<bool> keeps_places = false;

}  // namespace hero::core

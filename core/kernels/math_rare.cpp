#include <hero/core/kernels/math_rare_of.h>

namespace hero::math {

double rare(Rare which, double x, double y) { return rare_of(which, x, y); }

}  // namespace hero::math

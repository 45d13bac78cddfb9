#pragma once
// Arrays in grades: how their numbers are shown, and where two of them differ.
#include <cstdint>
#include <string>
#include <vector>

#include "exercises/support/grade.h"

#include <hero/core/array.h>

namespace exercise {

/// As few digits as tell the number from all others of its dtype.
std::string number(double value, hero::DType dtype);
/// "[3, 17]" of an element that is counted through all rows; "" of a scalar's.
std::string index_text(const hero::Shape& shape, int64_t element);

/// An array with a name.
struct Named {
  std::string name;
  hero::Array values;
};

/// The first element in which two lists of the same names differ by a bit.
struct Difference {
  bool found = false;
  size_t which = 0;       ///< the array's place in the list
  int64_t element = 0;    ///< of the array, counted through all its rows
  std::string text = {};  ///< "fc1.weight[3, 17] is 0.25 and should be 0.5"
};
Difference first_difference(const std::vector<Named>& got, const std::vector<Named>& right);

}  // namespace exercise

#pragma once
// Lists of names in errors.
#include <cstdint>
#include <string>
#include <string_view>

namespace hero::core {

/// The first names of a list, and how many more there are: "a, b, c .. and 12 more". The state of a
/// model has thousands of names, of which an error that lists them all would hide what it says.
class NameList {
 public:
  /// So many names are shown.
  static constexpr int64_t kShown = 8;

  /// Adds a name to the end.
  void add(std::string_view name);
  bool empty() const { return count_ == 0; }
  /// The list as text; "" of nothing.
  std::string text() const;

 private:
  std::string shown_;
  int64_t count_ = 0;
};

}  // namespace hero::core

#pragma once
// StateLookup: reads state dicts; internal to optim.
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/core/safetensors.h>

namespace hero::optim {

/// A number as a state dict holds it.
inline core::NamedArray state_number(std::string name, double value) {
  return {std::move(name), Array::full({}, value, kFloat64)};
}

/// Looks names up in a state dict and collects everything that does not fit.
class StateLookup {
 public:
  /// Looks names up in `dict`; `optimizer` names the optimizer in errors.
  StateLookup(const char* optimizer, const std::vector<core::NamedArray>& dict)
      : optimizer_(optimizer) {
    for (const core::NamedArray& entry : dict) {
      check(entry.array.defined(), optimizer, ": load_state_dict: ", entry.name, " is undefined");
      check(entries_.emplace(entry.name, Entry{&entry.array}).second, optimizer,
            ": load_state_dict: ", entry.name, " appears twice");
    }
  }

  /// True when there is an entry of that name.
  bool contains(const std::string& name) const { return entries_.count(name) > 0; }
  /// The array of that name; null if it is missing or does not fit, which finish() then reports.
  const Array* array(const std::string& name, const Shape& shape, DType dtype) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      missing_.add(name);
      return nullptr;
    }
    found->second.used = true;
    const Array& array = *found->second.array;
    if (array.shape() == shape && array.dtype() == dtype) return &array;
    misshaped_.add(name + " is " + to_string(array.dtype()) + " " + to_string(array.shape()) +
                   ", not " + to_string(dtype) + " " + to_string(shape));
    return nullptr;
  }
  /// The value of a float64 of shape []; 0, and reported by finish(), if it is missing or does not
  /// fit.
  double number(const std::string& name) {
    const Array* found = array(name, {}, kFloat64);
    return found ? found->item() : 0.0;
  }
  /// The same for a number from `least` to `most`; `least`, and reported, for any other, NaN
  /// included.
  double number(const std::string& name, double least, double most) {
    const Array* found = array(name, {}, kFloat64);
    if (!found) return least;
    const double value = found->item();
    if (value >= least && value <= most) return value;
    note_value(name, value, "a number from " + text_of(least) + " to " + text_of(most));
    return least;
  }
  /// The same for any number except NaN and the infinities.
  double finite(const std::string& name) {
    constexpr double kMost = std::numeric_limits<double>::max();
    return number(name, -kMost, kMost);
  }
  /// The same for a count: a whole number from 0 that a double represents exactly and an int64 can
  /// hold.
  double count(const std::string& name, double most = 0x1p53) {
    const Array* found = array(name, {}, kFloat64);
    if (!found) return 0.0;
    const double value = found->item();
    if (value >= 0.0 && value <= most && value == std::floor(value)) return value;
    note_value(name, value, "a whole number from 0 to " + text_of(most));
    return 0.0;
  }
  /// Throws one Error that lists what did not fit; does nothing if all did.
  void finish() const {
    core::NameList unexpected;
    for (const auto& [name, entry] : entries_) {
      if (!entry.used) unexpected.add(name);
    }
    std::string text;
    const auto part = [&](const char* label, const core::NameList& names) {
      if (!names.empty()) text += (text.empty() ? "" : "; ") + (label + names.text());
    };
    part("missing: ", missing_);
    part("unexpected: ", unexpected);
    part("does not fit: ", misshaped_);
    check(text.empty(), optimizer_, ": load_state_dict: the state is not this optimizer's: ", text);
  }

 private:
  struct Entry {
    const Array* array;
    bool used = false;
  };
  static std::string text_of(double value) { return hero::detail::number_text(value); }
  void note_value(const std::string& name, double value, const std::string& wanted) {
    misshaped_.add(name + " is " + text_of(value) + ", not " + wanted);
  }

  const char* optimizer_;
  std::map<std::string, Entry> entries_;
  core::NameList missing_, misshaped_;
};

}  // namespace hero::optim

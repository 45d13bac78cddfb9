#pragma once
// hero::Error and check(): every error message is one line, "op: what is wrong: values; what to
// do".
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace hero {

/// The exception type of the library; what() is a single line.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// While it lives, messages of errors thrown on this thread end with ", in <place>", where the
/// place is a module's path such as "mlp.fc2". The innermost scope counts.
class PlaceScope {
 public:
  explicit PlaceScope(const std::string& place) : previous_(current()) { current() = &place; }
  ~PlaceScope() { current() = previous_; }
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

 private:
  friend std::string current_place();
  static const std::string*& current();
  const std::string* previous_;
};

/// The place of the innermost PlaceScope on this thread; "" outside of any.
std::string current_place();

namespace detail {

std::string number_text(double value);
std::string number_text(int64_t value);
std::string number_text(uint64_t value);

template <class T>
void append(std::string& line, const T& part) {
  if constexpr (std::is_same_v<T, bool>) {
    line += part ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    line += part;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    line += std::string_view(part);
  } else if constexpr (std::is_floating_point_v<T>) {
    line += number_text(static_cast<double>(part));
  } else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>) {
    line += number_text(static_cast<uint64_t>(part));
  } else if constexpr (std::is_integral_v<T>) {
    line += number_text(static_cast<int64_t>(part));
  } else {
    line += to_string(part);  // found beside the type: Dims, DType, Device ...
  }
}

[[noreturn]] void throw_error(std::string line);
[[noreturn]] void throw_out_of_memory();

}  // namespace detail

/// Joins the parts into one line and throws it as hero::Error.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  try {
    std::string line;
    (detail::append(line, parts), ...);
    detail::throw_error(std::move(line));
  } catch (const std::bad_alloc&) {
    detail::throw_out_of_memory();  // not even the message fits
  }
}

/// Throws hero::Error with the joined parts if `ok` is false; the parts are formatted only then.
template <class... Parts>
inline void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(parts...);
}

/// Returns what `body` returns. If `body` runs out of memory in the standard library, as for a list
/// whose length a caller has chosen, throws an Error that begins with `op`.
template <class Body>
auto within_memory(const char* op, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    fail(op, ": out of memory; use smaller sizes or release tensors");
  } catch (const std::length_error&) {
    fail(op, ": out of memory: a list is too long for any; use smaller sizes");
  }
}

}  // namespace hero

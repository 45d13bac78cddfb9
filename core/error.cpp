#include <cstdio>
#include <string_view>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/error_scope.h>
#include <hero/core/io/name_list.h>
#include <hero/core/io/printable.h>
#include <hero/core/threads/thread_state.h>

namespace hero {

namespace {

thread_local const std::string* thread_place = nullptr;
[[maybe_unused]] const core::ThreadSlot<const std::string*> kPlaceSlot(
    [] { return thread_place; }, [](const std::string* place) { thread_place = place; },
    core::ThreadValue::scoped);

}  // namespace

const std::string*& PlaceScope::current() { return thread_place; }

std::string current_place() {
  const std::string* place = PlaceScope::current();
  return place != nullptr ? *place : "";
}

}  // namespace hero

namespace hero::detail {

namespace {

// Made while there is memory; copies of it need none.
const Error& out_of_memory() {
  static const Error error("out of memory; use smaller batches or release tensors");
  return error;
}
[[maybe_unused]] const Error& kMadeAtStart = out_of_memory();

// What is quoted is cut where it is quoted; this holds for all the rest, such as lists of a
// program's own modules. The start says what is wrong, the end what to do.
void shorten(std::string& line) {
  constexpr size_t kStart = 3000, kEnd = 900;
  if (line.size() <= kStart + kEnd) return;
  std::string_view end = std::string_view(line).substr(line.size() - kEnd);
  while (!end.empty() && core::continues_character(end.front())) end.remove_prefix(1);
  const std::string left_out = std::to_string(line.size() - kStart - end.size());
  line = core::cut_text(line, kStart) + " [" + left_out + " bytes] ..." + std::string(end);
}

}  // namespace

void throw_out_of_memory() { throw out_of_memory(); }

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string number_text(int64_t value) { return std::to_string(value); }

std::string number_text(uint64_t value) { return std::to_string(value); }

const ErrorScope*& ErrorScope::current() {
  thread_local const ErrorScope* scope = nullptr;
  return scope;
}

[[maybe_unused]] const core::ThreadSlot<const ErrorScope*> kErrorScopeSlot(
    [] { return ErrorScope::current(); },
    [](const ErrorScope* scope) { ErrorScope::current() = scope; }, core::ThreadValue::scoped);

void ErrorScope::enter() noexcept { outer_ = std::exchange(current(), this); }

ErrorScope::~ErrorScope() { current() = outer_; }

void throw_error(std::string line) {
  for (const ErrorScope* scope = ErrorScope::current(); scope != nullptr; scope = scope->outer_) {
    scope->adapt_(*scope, line);
  }
  const std::string place = current_place();
  if (!place.empty()) line += ", in " + place;
  shorten(line);
  // One line is a promise to people who read logs, and what a file says must not move their cursor:
  // a path or a name may carry a newline or an escape sequence.
  throw Error(printable(line));
}

}  // namespace hero::detail

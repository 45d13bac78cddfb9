#include <string>

#include <hero/autograd/ops/named.h>

namespace hero {

namespace {

constexpr std::string_view kGiven = "; given ";

// What the error says behind the name of its operation, without its place and without what an
// operation further in was given; empty if it names no operation.
std::string text_of(const Error& error) {
  std::string text = error.what();
  const std::string place = current_place(), end = ", in " + place;
  if (!place.empty() && text.ends_with(end)) text.resize(text.size() - end.size());
  const size_t colon = text.find(": ");
  if (colon == std::string::npos) return "";
  text.erase(0, colon + 2);
  return text.substr(0, text.rfind(kGiven));
}

}  // namespace

void detail::name_op(const Error& error, const char* op,
                     std::initializer_list<Argument> arguments) {
  check_defined(op, arguments);
  std::string text = text_of(error);
  if (text.empty()) throw;
  if (text.find('[') != std::string::npos) {
    bool is_told = true;
    std::string given;
    for (const Argument& each : arguments) {
      const std::string shape = to_string(each.tensor.shape());
      is_told = is_told && text.find(shape) != std::string::npos;
      given += (given.empty() ? "" : ", ") + (each.name + (" " + shape));
    }
    if (!is_told) text.append(kGiven).append(given);
  }
  fail(op, ": ", text);
}

}  // namespace hero

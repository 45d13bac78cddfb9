#include <hero/core/error.h>
#include <hero/core/io/name_list.h>

namespace hero::core {

std::string cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > most - 4 && continues_character(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

void NameList::add(std::string_view name) {
  if (++count_ > kShown) return;
  if (count_ > 1) shown_ += separator_;
  shown_ += cut_text(name, longest_);
}

std::string NameList::text() const {
  if (count_ <= kShown) return shown_;
  return shown_ + " .. and " + hero::detail::number_text(count_ - kShown) + " more";
}

}  // namespace hero::core

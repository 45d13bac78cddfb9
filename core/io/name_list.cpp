#include <hero/core/error.h>
#include <hero/core/io/name_list.h>

namespace hero::core {

void NameList::add(std::string_view name) {
  if (++count_ > kShown) return;
  if (count_ > 1) shown_ += ", ";
  shown_ += name;
}

std::string NameList::text() const {
  if (count_ <= kShown) return shown_;
  return shown_ + " .. and " + hero::detail::number_text(count_ - kShown) + " more";
}

}  // namespace hero::core

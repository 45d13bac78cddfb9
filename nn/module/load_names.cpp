#include <algorithm>
#include <cstring>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/nn/module/load_names.h>

namespace hero::nn::detail {

namespace {

std::string listed(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  core::NameList list;
  for (const std::string& name : names) list.add(name);
  return std::string("; ") + title + " " + list.text();
}

}  // namespace

std::string wrapper_of(const std::vector<std::string>& of_state,
                       const std::vector<std::string>& of_module) {
  for (const char* prefix : {"module.", "_orig_mod."}) {
    const auto starts = [&](const std::string& name) { return name.starts_with(prefix); };
    const bool is_wrapped = !of_state.empty() && std::ranges::all_of(of_state, starts);
    if (is_wrapped && std::ranges::none_of(of_module, starts)) return prefix;
  }
  return "";
}

void MisShaped::add(const std::string& name, const Shape& given, const Shape& own) {
  names_.push_back(name + " " + to_string(given) + " instead of " + to_string(own));
  all_transposed_ = all_transposed_ && given.size() == 2 && own.size() == 2 && given[0] == own[1] &&
                    given[1] == own[0];
}

std::string MisShaped::text() const {
  if (names_.empty()) return "";
  return listed("mis-shaped:", names_) +
         (all_transposed_ ? "; all of these are transposed, as transformers keeps GPT-2's matrices "
                            "(the square ones, too): read its folder with GPT::from_pretrained()"
                          : "");
}

void check_fits(const std::string& target, const LoadResult& result, const MisShaped& mis_shaped,
                const LoadOptions& options) {
  const std::vector<std::string> none;
  const auto& missing = options.strict ? result.missing : none;
  const auto& unexpected = options.strict ? result.unexpected : none;
  check(missing.empty() && unexpected.empty() && mis_shaped.empty(),
        "load_state_dict: the state does not fit ", target, listed("missing:", missing),
        listed("unexpected:", unexpected), mis_shaped.text());
}

bool same_values(const Array& a, const Array& b, DType dtype) {
  if (a.device().type == DeviceType::meta || b.device().type == DeviceType::meta) return true;
  const bool one = a.storage_ref() == b.storage_ref() && a.offset() == b.offset() &&
                   a.strides() == b.strides() && a.dtype() == b.dtype();
  if (one) return true;
  const Array x = a.to(kCpu).to(dtype).contiguous(), y = b.to(kCpu).to(dtype).contiguous();
  return x.nbytes() == 0 || std::memcmp(x.bytes(), y.bytes(), static_cast<size_t>(x.nbytes())) == 0;
}

void fail_tied(const char* op, const std::string& target, const std::string& name,
               const std::string& other) {
  fail(
      op, ": ", name, " and ", other, " are one tensor of ", target,
      " (tied), and the state has different values for them; remove one of them from the state, or "
      "make a module in which they are not tied");
}

}  // namespace hero::nn::detail

#include <algorithm>

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

void check_fits(const std::string& target, const LoadResult& result,
                const std::vector<std::string>& mis_shaped, const LoadOptions& options) {
  const std::vector<std::string> none;
  const auto& missing = options.strict ? result.missing : none;
  const auto& unexpected = options.strict ? result.unexpected : none;
  check(missing.empty() && unexpected.empty() && mis_shaped.empty(),
        "load_state_dict: the state does not fit ", target, listed("missing:", missing),
        listed("unexpected:", unexpected), listed("mis-shaped:", mis_shaped));
}

}  // namespace hero::nn::detail

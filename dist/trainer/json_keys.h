#pragma once
// JSONSection: reads a JSON document in which every key must be read, or is reported; internal to
// dist.
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/json/json.h>

namespace hero::dist {

/// The document's name, the line of every key by its path ("fp16.enabled"), and what is wrong.
struct JSONProblems {
  std::string label;
  std::map<std::string, int> lines;
  std::vector<std::string> found = {};

  JSONProblems(std::string name, std::string_view text);
  /// Notes "line 3: fp16.enabled <what>".
  void add(const std::string& path, const std::string& what);
  /// Throws an Error that lists all problems, if there are any.
  void raise() const;
};

/// 2^53: doubles are whole numbers up to there.
inline constexpr int64_t kMostInteger = int64_t{1} << 53;

/// One object of the document. Each function reads one key, which may be absent; finish() reports
/// keys that were not read. For a wrong value, a problem is added and the fallback returned.
class JSONSection {
 public:
  JSONSection(JSONProblems& problems, const core::JSON* object, std::string path);

  bool present() const { return object_ != nullptr; }
  bool empty() const { return object_ == nullptr || object_->empty(); }
  bool has(const std::string& key) const;
  double number(const std::string& key, double fallback, double least = 0.0);
  int64_t integer(const std::string& key, int64_t fallback, int64_t least = 0,
                  int64_t most = kMostInteger);
  /// A count of ranks or stages, from 1 on.
  int count(const std::string& key, int fallback);
  bool flag(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback,
                   std::initializer_list<std::string_view> choices = {});
  /// Two numbers in brackets.
  bool pair(const std::string& key, double& first, double& second);
  /// The object of that name; empty if it is null or false, which means switched off.
  JSONSection section(const std::string& key);
  const core::JSON* take(const std::string& key);

  /// The key may have only one of these values, which are what Hero does anyway, or DeepSpeed's
  /// default.
  void only(const std::string& key, const std::vector<core::JSON>& values, const std::string& why);
  /// The key may have any value, since none makes a difference.
  void any(const std::string& key) { take(key); }
  void any(std::initializer_list<const char*> keys);
  /// The keys may be true, false or null, since none makes a difference.
  void any_flag(std::initializer_list<const char*> keys);
  /// A section that is allowed only if its "enabled" is false, which is the default, as in
  /// DeepSpeed. If it has no "enabled", its keys must be among `known`, so that a misspelt
  /// "enabled" is found.
  void off(const std::string& key, const std::string& why,
           std::initializer_list<std::string_view> known);
  void refuse(const std::string& key, const std::string& why);
  void problem(const std::string& key, const std::string& what) { problems_->add(at(key), what); }
  void finish();

 private:
  std::string at(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  JSONProblems* problems_;
  const core::JSON* object_;
  std::string path_;
  std::vector<std::string> taken_ = {};
};

}  // namespace hero::dist

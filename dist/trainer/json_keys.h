#pragma once
// Sections of a JSON document whose every key is read or reported; for dist's own files.
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
  /// An Error that lists all that was found, if anything was.
  void raise() const;
};

/// 2^53: doubles are whole numbers up to there.
inline constexpr int64_t kMostInteger = int64_t{1} << 53;

/// One object of the document. Each reader takes a key, absent or not; finish() reports those that
/// nobody took. A wrong value is noted and the fallback returned.
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
  /// The object of that name; nothing where it is null or false, as what is switched off.
  JSONSection section(const std::string& key);
  const core::JSON* take(const std::string& key);

  /// The key may be there with one of these values, which are what Hero does anyway, or what
  /// DeepSpeed takes where the key is left out.
  void only(const std::string& key, const std::vector<core::JSON>& values, const std::string& why);
  /// The key may have any value, since none can make a difference.
  void any(const std::string& key) { take(key); }
  void any(std::initializer_list<const char*> keys);
  /// True or false, or null for neither, of which none can make a difference.
  void any_flag(std::initializer_list<const char*> keys);
  /// A section with "enabled", false if it is left out as in DeepSpeed, that may be there if it is
  /// switched off. Where it does not say so itself, its other keys are among `known`, so that no
  /// misspelt "enabled" switches it off.
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

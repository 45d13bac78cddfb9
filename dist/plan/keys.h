#pragma once
// Reading JSON objects of which every key must be known.
#include <string>
#include <vector>

#include <hero/core/json/json.h>
#include <hero/dist/simulation/cluster.h>

namespace hero::dist {

/// Reads the members of an object and remembers which keys were asked for.
class Keys {
 public:
  /// `path` of the object, "" for the document: errors call its members "path.key". Names of keys
  /// that nobody asked for go to `unknown`. An Error unless the value is an object.
  Keys(const core::JSON& value, std::string path, std::string label,
       std::vector<std::string>& unknown);

  /// The member, or null.
  const core::JSON* find(const char* key);
  /// A finite number above zero, or from zero on; keeps `value` where the key is absent.
  void positive(const char* key, double& value);
  void not_negative(const char* key, double& value);
  /// A whole number from 1 on.
  void count(const char* key, int64_t& value);
  void count(const char* key, int& value);
  /// An Error about the member `key`.
  [[noreturn]] void refuse(const char* key, const std::string& wrong) const;
  /// A member that is an object.
  Keys object(const char* key);
  std::string path_of(const std::string& key) const;
  /// All keys have been asked for: those that were not become unknown.
  void end();

 private:
  double number(const char* key, const core::JSON& value) const;

  const core::JSON* value_;
  std::string path_, label_;
  std::vector<std::string>* unknown_;
  std::vector<std::string> asked_;
};

/// One Error for all keys that were not known.
void refuse_unknown(const std::vector<std::string>& unknown, const std::string& label);

/// A cluster's members.
Cluster read_cluster(Keys keys);
/// A cluster as JSON.
core::JSON cluster_json(const Cluster& cluster);

}  // namespace hero::dist

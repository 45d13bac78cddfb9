#pragma once
// Keys: reads JSON objects in which every key must be known.
#include <string>
#include <vector>

#include <hero/core/json/json.h>
#include <hero/dist/simulation/cluster.h>

namespace hero::dist {

/// Reads the members of an object and remembers which keys were read.
class Keys {
 public:
  /// `path` of the object, "" for the document: errors call its members "path.key". Keys that were
  /// not read are added to `unknown`. Throws an Error unless the value is an object.
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
  /// Called after the last key was read: adds all other keys to the unknown ones.
  void end();

 private:
  double number(const char* key, const core::JSON& value) const;

  const core::JSON* value_;
  std::string path_, label_;
  std::vector<std::string>* unknown_;
  std::vector<std::string> asked_;
};

/// Throws one Error that lists all unknown keys, if there are any.
void refuse_unknown(const std::vector<std::string>& unknown, const std::string& label);

/// A cluster's members.
Cluster read_cluster(Keys keys);
/// A cluster as JSON.
core::JSON cluster_json(const Cluster& cluster);

}  // namespace hero::dist

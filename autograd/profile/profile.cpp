#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <type_traits>

#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/profile/profiler.h>
#include <hero/core/error.h>

namespace hero {

namespace {

// The first `depth` names of a path; all of them where depth is 0.
std::string first_names(const std::string& path, int depth) {
  size_t end = 0;
  for (int i = 0; i < depth; ++i) {
    end = path.find('.', end);
    if (end == std::string::npos) return path;
    ++end;
  }
  return depth == 0 ? path : path.substr(0, end - 1);
}

// Values and lists one behind the other, as they lie in memory.
class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(static_cast<int64_t>(text.size()));
    bytes += text;
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<int64_t>(list.size()));
    for (const T& item : list) put(item);
  }
  void put(const ProfileRow& r) {
    put(r.name), put(r.module), put(r.phase), put(r.calls), put(r.seconds);
    put(r.self_seconds), put(r.flops), put(r.bytes);
  }
  void put(const ProfileCollective& c) {
    put(c.op), put(c.axis), put(c.unit), put(c.calls), put(c.bytes), put(c.seconds), put(c.waited);
  }

  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  void get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(static_cast<void*>(&value), take(sizeof value).data(), sizeof value);
  }
  void get(std::string& text) { text = take(length()); }
  template <class T>
  void get(std::vector<T>& list) {
    const size_t count = length();
    list.clear();
    for (size_t i = 0; i < count; ++i) get(list.emplace_back());
  }
  void get(ProfileRow& r) {
    get(r.name), get(r.module), get(r.phase), get(r.calls), get(r.seconds);
    get(r.self_seconds), get(r.flops), get(r.bytes);
  }
  void get(ProfileCollective& c) {
    get(c.op), get(c.axis), get(c.unit), get(c.calls), get(c.bytes), get(c.seconds), get(c.waited);
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view take(size_t count) {
    check(count <= left_.size(), "profile: these bytes are none that encode() made");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  size_t length() {
    int64_t count = 0;
    get(count);
    check(count >= 0 && static_cast<uint64_t>(count) <= left_.size(),
          "profile: these bytes are none that encode() made");
    return static_cast<size_t>(count);
  }
  std::string_view left_;
};

constexpr int64_t kVersion = 0x68657270726f6601;  // "heroprof", 1

// put or get of every member.
template <class Profile, class F>
void each_member(Profile& p, const F& f) {
  f(p.label), f(p.rank), f(p.steps), f(p.begin), f(p.seconds), f(p.left_out), f(p.rows);
  f(p.collectives), f(p.events), f(p.calls), f(p.memory);
}

}  // namespace

const char* name(ProfilePhase phase) {
  constexpr const char* names[kProfilePhaseCount] = {"forward", "backward", "recompute", "part",
                                                     "wait"};
  return names[static_cast<int>(phase)];
}

std::vector<ProfileRow> Profile::sums(ProfileBy by, int depth) const {
  check(by != ProfileBy::collective, "profile: sums of calls to other ranks are in collectives");
  check(depth >= 0, "profile: depth is a number of names, 0 for all: ", depth);
  std::map<std::tuple<std::string, std::string, ProfilePhase>, ProfileRow> found;
  for (const ProfileRow& row : rows) {
    ProfileRow key;
    if (by == ProfileBy::module) {
      key.module = first_names(row.module, depth);
    } else {
      key.name = row.name;
      key.phase = row.phase;
    }
    ProfileRow& sum = found.try_emplace({key.name, key.module, key.phase}, key).first->second;
    sum.calls += row.calls;
    sum.seconds += row.seconds;
    sum.self_seconds += row.self_seconds;
    sum.flops += row.flops;
    sum.bytes += row.bytes;
  }
  std::vector<ProfileRow> sorted;
  for (auto& [key, row] : found) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return a.self_seconds > b.self_seconds;
  });
  return sorted;
}

std::string Profile::encode() const {
  Writer writer;
  writer.put(kVersion);
  each_member(*this, [&](const auto& member) { writer.put(member); });
  return std::move(writer.bytes);
}

Profile Profile::decode(std::string_view bytes) {
  Reader reader(bytes);
  int64_t version = 0;
  reader.get(version);
  check(version == kVersion, "profile: these bytes are none that encode() made");
  Profile profile;
  each_member(profile, [&](auto& member) { reader.get(member); });
  check(reader.at_end(), "profile: these bytes are none that encode() made");
  return profile;
}

}  // namespace hero

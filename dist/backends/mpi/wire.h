#pragma once
// Packet: encodes the short messages of the mpi backend as bytes.
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/dist/backends/agreement.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// What a short message is about. Up the tree of ranks (see RankTree): `waiting`, `fail`, `final`,
/// `answer`, `threw`, `end`. Down it: `arrived`, `verdict`, `finals`, `query`, `result`. Up the
/// tree of a call's parties: `statement`. To rank 0: `ready`, `left`, and from it `make`,
/// `release`. Among all: `summary`.
enum class Note : uint8_t {
  summary,    ///< the summary of statements of a call; see Agreement
  statement,  ///< the full statements of some parties, sent because statements differ
  waiting,    ///< ranks below that have waited for a while; see WaitReport
  arrived,    ///< ranks that wait in a call, and ranks that have finished without it
  fail,       ///< a failure was found
  verdict,    ///< the failure of the whole run
  final,      ///< ranks below have read the verdict and begin no further call
  finals,     ///< the same for all ranks
  query,      ///< rank 0 asks whether all still wait
  answer,     ///< the answer to `query`
  threw,      ///< a program below has thrown
  end,        ///< all programs below have ended
  result,     ///< how the run has ended
  ready,      ///< the members of a group need a communicator of the library
  make,       ///< all members of that group make it now
  left,       ///< a member no longer needs that communicator
  release,    ///< all members of that group free it now
};

/// Writes values one behind the other, and reads them in the same order.
class Packet {
 public:
  Packet() = default;
  explicit Packet(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& bytes() const { return bytes_; }

  template <class T>
  Packet& put(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      put(value.size());
      bytes_ += value;
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
    return *this;
  }
  template <class T>
  Packet& put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
    return *this;
  }

  template <class T>
  T take() {
    if constexpr (std::is_same_v<T, std::string>) {
      const auto length = take<size_t>();
      next_ += length;
      return bytes_.substr(next_ - length, length);
    } else {
      T value;
      std::memcpy(&value, bytes_.data() + next_, sizeof(T));
      next_ += sizeof(T);
      return value;
    }
  }
  template <class T>
  std::vector<T> take_list() {
    std::vector<T> values(take<size_t>());
    for (T& value : values) value = take<T>();
    return values;
  }

 private:
  std::string bytes_;
  size_t next_ = 0;
};

/// A statement without its pointers.
void put_call(Packet& packet, const Call& call);
Call take_call(Packet& packet);

/// A sequence in which calls are numbered: a group's collectives, {-1, -1}, or its messages from
/// one member to another.
struct Lane {
  uint64_t group = 0;
  int from = -1, to = -1;
  friend bool operator<(const Lane& a, const Lane& b) {
    return std::tie(a.group, a.from, a.to) < std::tie(b.group, b.from, b.to);
  }
  friend bool operator==(const Lane&, const Lane&) = default;
};

/// Identifies a collective or a message, in the same way on every rank.
struct CallKey {
  Lane lane;
  uint64_t sequence = 0;
  friend bool operator<(const CallKey& a, const CallKey& b) {
    return std::tie(a.lane, a.sequence) < std::tie(b.lane, b.sequence);
  }
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

/// The calls that a rank has announced to the others when it stops announcing calls.
struct Told {
  std::map<Lane, uint64_t> begun;  ///< number of calls begun in each lane
  /// Calls not announced, since they wait for the call `after` which they begin.
  std::vector<CallKey> never;

  bool has(const CallKey& key) const;
  friend bool operator==(const Told&, const Told&) = default;
};

/// The same for several ranks together.
struct ToldByAll {
  struct Begun {
    uint64_t least = 0;  ///< calls begun by each of these ranks, at least
    int ranks = 0;       ///< number of ranks that have begun any
  };
  std::map<Lane, Begun> begun;
  std::set<CallKey> never;  ///< calls that a rank has not announced

  void add(const Told& told);
  void add(const ToldByAll& other);
  /// Whether this number of ranks have announced the call.
  bool has(const CallKey& key, int ranks) const;
};

struct Failure;
void put_summary(Packet& packet, const StatementSummary& summary);
StatementSummary take_summary(Packet& packet);
void put_told(Packet& packet, const Told& told);
Told take_told(Packet& packet);
void put_failure(Packet& packet, const Failure& failure);
Failure take_failure(Packet& packet);
void put_told_by_all(Packet& packet, const ToldByAll& told);
ToldByAll take_told_by_all(Packet& packet);

}  // namespace hero::dist

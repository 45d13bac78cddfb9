#pragma once
// The short messages by which processes agree, as bytes.
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <hero/dist/engines/call.h>

namespace hero::dist {

/// What a short message is about. To rank 0: `fail`, `status`, `answer`, `end`, `ready`. From
/// rank 0: `verdict`, `query`, `result`, `make`. Among all: `call`, `finished`, `final`.
enum class Note : uint8_t {
  call,      ///< a rank's statement
  finished,  ///< its program has ended well: no call will follow
  fail,      ///< it knows of a failure
  verdict,   ///< the failure that is everybody's
  final,     ///< having read the verdict it begins no further call
  status,    ///< it waits, or goes on
  query,     ///< rank 0 asks whether it still waits
  answer,    ///< the answer to `query`
  end,       ///< its program has ended
  result,    ///< how the run has ended
  ready,     ///< it needs a group's own communicator of the library
  make,      ///< all members of that group make it now
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

}  // namespace hero::dist

#pragma once
// JSON as a value that is parsed from a text and written as one; for sources only, not for headers.
// core/json/json.cpp is the one source that includes nlohmann-json, whose parser and writer do the
// work: its headers take seconds of every file that includes them.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <hero/core/error.h>

namespace hero::core {

/// A value of JSON: null, true or false, a number, a text, an array, or an object. It is
/// constructed from its value, as JSON(1.5) or JSON{{"name", "x"}, {"sizes", {1, 2}}}: braces make
/// an object if each element is a pair that begins with a text, else an array.
class JSON {
 public:
  using Array = std::vector<JSON>;
  using Object = std::map<std::string, JSON, std::less<>>;

  JSON() = default;
  // NOLINTBEGIN(google-explicit-constructor): a value of JSON is written as what it holds
  JSON(std::nullptr_t) {}
  JSON(std::same_as<bool> auto value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) JSON(T value) {
    if (std::is_signed_v<T> && value < T{0}) {
      value_ = static_cast<int64_t>(value);
    } else {
      value_ = static_cast<uint64_t>(value);
    }
  }
  JSON(std::floating_point auto value) : value_(static_cast<double>(value)) {}
  JSON(const char* text) : value_(std::string(text)) {}
  JSON(std::string_view text) : value_(std::string(text)) {}
  JSON(std::string text) : value_(std::move(text)) {}
  template <class T>
  JSON(const std::vector<T>& values) : value_(Array(values.begin(), values.end())) {}
  template <class T>
  JSON(const std::map<std::string, T>& members);
  JSON(std::initializer_list<JSON> values);
  // NOLINTEND(google-explicit-constructor)
  JSON(const JSON&) = default;
  JSON(JSON&&) noexcept = default;
  ~JSON() = default;
  /// A member of an object keeps its place in the order of the members.
  JSON& operator=(JSON other) {
    value_ = std::move(other.value_);
    return *this;
  }
  static JSON array(std::initializer_list<JSON> values = {});
  /// Each element is a pair of a name and a value.
  static JSON object(std::initializer_list<JSON> members = {});

  bool is_null() const { return value_.index() == 0; }
  bool is_boolean() const { return holds<bool>(); }
  bool is_string() const { return holds<std::string>(); }
  bool is_array() const { return holds<Array>(); }
  bool is_object() const { return holds<Object>(); }
  bool is_number() const { return is_whole() || holds<double>(); }
  /// A number that was written without a point or an exponent and fits into 64 bits.
  bool is_whole() const { return holds<int64_t>() || is_unsigned(); }
  /// A whole number of 0 or more.
  bool is_unsigned() const { return holds<uint64_t>(); }

  /// \name What the value holds; an Error where it holds something else.
  /// \{
  bool boolean() const { return as<bool>(); }
  /// A whole number of 0 or more.
  uint64_t whole() const { return as<uint64_t>(); }
  /// A whole number below 0.
  int64_t negative() const { return as<int64_t>(); }
  /// Any number as a float64; whole ones above 2^53 are rounded.
  double number() const;
  const std::string& text() const { return as<std::string>(); }
  const Array& elements() const { return as<Array>(); }
  /// The members of an object, sorted by name.
  const Object& members() const { return as<Object>(); }
  /// \}

  /// The number of elements or members; 0 if the value is no array or object.
  size_t size() const;
  bool empty() const { return size() == 0; }
  /// For loops over the elements of an array.
  Array::const_iterator begin() const { return elements().begin(); }
  Array::const_iterator end() const { return elements().end(); }
  /// The element at this position; throws an Error if there is none.
  const JSON& operator[](size_t position) const;
  /// Adds an element to an array, and returns it; null becomes an array.
  JSON& push_back(JSON value);

  /// The member of this name; null if the value is no object or has no such member.
  const JSON* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The member of this name; throws an Error "it has no 'name'" if there is none.
  const JSON& operator[](std::string_view name) const;
  /// A copy of the member of this name, or `absent`.
  JSON value(std::string_view name, const JSON& absent) const;
  /// The member of this name, which is added as null if there is none; null becomes an object.
  JSON& operator[](std::string_view name);

  /// Numbers are equal if their values are, however they were written.
  bool operator==(const JSON& other) const;

  /// Members sorted by name, or in the order in which they were added.
  enum class Order { sorted, added };
  /// The value as text, in one line or, if indent >= 0, indented by that many spaces. Bytes that
  /// are not UTF-8 are replaced; json_dump() throws an Error for them.
  std::string dump(int indent = -1, Order order = Order::sorted) const;

 private:
  using Held =
      std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object>;
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T& as() const {
    const T* held = std::get_if<T>(&value_);
    if (held == nullptr) fail_kind();
    return *held;
  }
  [[noreturn]] void fail_kind() const;
  friend class JSONWriter;

  Held value_;
  size_t added_ = 0;  // if it is a member of an object: the number of members added before it
};

template <class T>
JSON::JSON(const std::map<std::string, T>& members) : value_(Object()) {
  for (const auto& [name, value] : members) (*this)[name] = JSON(value);
}

/// The largest depth of nested brackets in a document. The parser does not recurse, but printing,
/// copying and comparing a tree do, and a deep tree would overflow the stack.
inline constexpr int kMaxJSONDepth = 100;

/// Parses the document in `text`; throws an Error "op: label is not JSON: ..." if it is not JSON,
/// or nested too deeply. If several members have the same name, the last one counts.
JSON parse_json(std::string_view text, const char* op, const std::string& label);

/// The document as text; throws an Error "op: .." if a text in it is not UTF-8. Use it for files
/// that are read again; texts that are only shown, in metrics, traces and reports, have escapes
/// instead (utf8_text()).
std::string json_dump(const JSON& document, std::string_view op, int indent = -1,
                      JSON::Order order = JSON::Order::sorted);

/// A value as an error shows it; of a long one only the start.
std::string shown(const JSON& value);

/// The members of a value that must be an object; `name` is its name in the Error.
const JSON::Object& json_object(const JSON& value, const char* name);
/// The text of a value; `what` is its name in the Error if it is no text.
const std::string& json_text(const JSON& value, std::string_view what);

/// The value as a whole number, exactly; throws an Error that begins with `what` if it is no whole
/// number or does not fit into T.
template <class T>
T json_integer(const JSON& value, std::string_view what) {
  constexpr auto kMost = std::numeric_limits<T>::max();
  bool fits = false;
  if (value.is_unsigned()) {
    fits = value.whole() <= static_cast<uint64_t>(kMost);
  } else if (value.is_whole() && std::numeric_limits<T>::is_signed) {
    fits = value.negative() >= static_cast<int64_t>(std::numeric_limits<T>::min());
  }
  check(fits, what, " is ", shown(value), ", not a whole number ",
        std::numeric_limits<T>::is_signed ? "of " : "from 0 of ", 8 * sizeof(T), " bits");
  return value.is_unsigned() ? static_cast<T>(value.whole()) : static_cast<T>(value.negative());
}

/// Receives a document piece by piece, in its order, for readers that build no tree of it.
class JSONEvents {
 public:
  virtual ~JSONEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(int64_t value) = 0;
  virtual void whole(uint64_t value) = 0;
  virtual void floating(double value) = 0;
  virtual void text(std::string& value) = 0;
  /// The name of the member whose value comes next.
  virtual void name(std::string& value) = 0;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  /// The text is no JSON from this byte on, for this reason; nothing comes after it.
  virtual void error(size_t position, const std::string& reason) = 0;
};
/// Reads `text` to its end or to the first error.
void read_json(std::string_view text, JSONEvents& events);

}  // namespace hero::core

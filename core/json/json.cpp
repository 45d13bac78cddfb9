#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>

namespace hero::core {

namespace {

using Written = nlohmann::ordered_json;

// How deep brackets lie within brackets, up to the first that are too deep. Where the text is no
// JSON the parser stops before the count goes wrong.
int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size() && deepest <= kMaxJSONDepth; ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its name.
std::string reason_of(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const size_t end = text.find("] ");
  return std::string(text.substr(end == text.npos ? 0 : end + 2));
}

// Passes on what nlohmann's parser reads.
class PassedEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit PassedEvents(JSONEvents& events) : events_(events) {}
  bool null() override { return events_.null(), true; }
  bool boolean(bool value) override { return events_.boolean(value), true; }
  bool number_integer(number_integer_t value) override { return events_.negative(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return events_.whole(value), true; }
  bool number_float(number_float_t value, const string_t&) override {
    return events_.floating(value), true;
  }
  bool string(string_t& value) override { return events_.text(value), true; }
  bool binary(binary_t&) override { return false; }  // is in no text
  bool key(string_t& value) override { return events_.name(value), true; }
  bool start_object(size_t) override { return events_.begin_object(), true; }
  bool end_object() override { return events_.end_object(), true; }
  bool start_array(size_t) override { return events_.begin_array(), true; }
  bool end_array() override { return events_.end_array(), true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    return events_.error(position, reason_of(error)), false;
  }

 private:
  JSONEvents& events_;
};

// Builds the tree.
class TreeEvents : public JSONEvents {
 public:
  TreeEvents(const char* op, const std::string& label) : op_(op), label_(label) {}
  JSON take() { return std::move(root_); }

  void null() override { add(JSON()); }
  void boolean(bool value) override { add(JSON(value)); }
  void negative(int64_t value) override { add(JSON(value)); }
  void whole(uint64_t value) override { add(JSON(value)); }
  void floating(double value) override { add(JSON(value)); }
  void text(std::string& value) override { add(JSON(std::move(value))); }
  void name(std::string& value) override { name_ = std::move(value); }
  void begin_object() override { open(JSON::object()); }
  void end_object() override { open_.pop_back(); }
  void begin_array() override { open(JSON::array()); }
  void end_array() override { open_.pop_back(); }
  void error(size_t, const std::string& reason) override {
    // which quotes what was read last, a string of any length
    fail(op_, ": ", label_, " is not JSON: ", cut_text(reason, 300));
  }

 private:
  JSON& add(JSON value) {
    if (open_.empty()) return root_ = std::move(value);
    JSON& around = *open_.back();
    if (around.is_object()) return around[name_] = std::move(value);
    return around.push_back(std::move(value));
  }
  void open(JSON value) { open_.push_back(&add(std::move(value))); }

  const char* op_;
  const std::string& label_;
  JSON root_;
  std::string name_;
  // Whole objects and arrays lie around those that are being read, so that none of them moves.
  std::vector<JSON*> open_;
};

}  // namespace

/// Makes nlohmann's tree of a value, which is what writes it.
class JSONWriter {
 public:
  explicit JSONWriter(JSON::Order order) : order_(order) {}

  Written written(const JSON& value) const {
    if (value.is_object()) return object(value.as<JSON::Object>());
    if (value.is_array()) {
      Written array = Written::array();
      for (const JSON& element : value.elements()) array.push_back(written(element));
      return array;
    }
    if (value.is_string()) return value.text();
    if (value.is_boolean()) return value.boolean();
    if (value.is_unsigned()) return value.whole();
    if (value.is_whole()) return value.negative();
    if (value.is_number()) return value.number();
    return nullptr;
  }

 private:
  Written object(const JSON::Object& members) const {
    std::vector<const JSON::Object::value_type*> sorted;
    sorted.reserve(members.size());
    for (const auto& member : members) sorted.push_back(&member);
    if (order_ == JSON::Order::added) {
      std::sort(sorted.begin(), sorted.end(),
                [](const auto* a, const auto* b) { return a->second.added_ < b->second.added_; });
    }
    Written object = Written::object();
    // appended to its vector directly, since ordered_json looks a key up by walking
    auto& list = object.get_ref<Written::object_t&>();
    list.reserve(sorted.size());
    for (const auto* member : sorted) {
      list.emplace_back(member->first, written(member->second));
    }
    return object;
  }

  JSON::Order order_;
};

JSON::JSON(std::initializer_list<JSON> values) {
  const bool pairs = std::all_of(values.begin(), values.end(), [](const JSON& each) {
    return each.is_array() && each.size() == 2 && each[0].is_string();
  });
  *this = pairs ? object(values) : array(values);
}

JSON JSON::array(std::initializer_list<JSON> values) {
  JSON made;
  made.value_ = Array(values);
  return made;
}

JSON JSON::object(std::initializer_list<JSON> members) {
  JSON made;
  made.value_ = Object();
  for (const JSON& member : members) made[member[0].text()] = member[1];
  return made;
}

double JSON::number() const {
  if (const auto* whole = std::get_if<uint64_t>(&value_)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<int64_t>(&value_)) return static_cast<double>(*whole);
  return as<double>();
}

size_t JSON::size() const {
  if (is_array()) return elements().size();
  return is_object() ? members().size() : 0;
}

const JSON& JSON::operator[](size_t position) const {
  const Array& array = elements();
  check(position < array.size(), "json: there is no element ", position, " of ", array.size());
  return array[position];
}

JSON& JSON::push_back(JSON value) {
  if (is_null()) value_ = Array();
  (void)elements();
  return std::get<Array>(value_).emplace_back(std::move(value));
}

const JSON* JSON::find(std::string_view name) const {
  if (!is_object()) return nullptr;
  const auto& object = std::get<Object>(value_);
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &found->second;
}

const JSON& JSON::operator[](std::string_view name) const {
  const JSON* found = find(name);
  check(found != nullptr, "it has no '", name, "'");
  return *found;
}

JSON JSON::value(std::string_view name, const JSON& absent) const {
  const JSON* found = find(name);
  return found == nullptr ? absent : *found;
}

JSON& JSON::operator[](std::string_view name) {
  if (is_null()) value_ = Object();
  (void)members();
  auto& object = std::get<Object>(value_);
  const auto [at, fresh] = object.try_emplace(std::string(name));
  if (fresh) at->second.added_ = object.size() - 1;
  return at->second;
}

bool JSON::operator==(const JSON& other) const {
  if (is_number() && other.is_number() && value_.index() != other.value_.index()) {
    // whole numbers of two kinds differ, since one is below 0
    return !(is_whole() && other.is_whole()) && number() == other.number();
  }
  return value_ == other.value_;
}

void JSON::fail_kind() const { fail("json: ", shown(*this), " is a value of another kind"); }

std::string JSON::dump(int indent, Order order) const {
  return JSONWriter(order).written(*this).dump(indent, ' ', false,
                                               Written::error_handler_t::replace);
}

JSON parse_json(std::string_view text, const char* op, const std::string& label) {
  check(json_depth(text) <= kMaxJSONDepth, op, ": ", label, " is JSON of more than ", kMaxJSONDepth,
        " brackets within brackets");
  TreeEvents tree(op, label);
  read_json(text, tree);
  return tree.take();
}

void read_json(std::string_view text, JSONEvents& events) {
  PassedEvents passed(events);
  nlohmann::json::sax_parse(text.begin(), text.end(), &passed);
}

std::string json_dump(const JSON& document, std::string_view op, int indent, JSON::Order order) {
  try {
    return JSONWriter(order).written(document).dump(indent);
  } catch (const nlohmann::json::exception&) {
    fail(op, ": a name or a text is not UTF-8, so that it cannot be written as JSON; rename it");
  }
}

std::string shown(const JSON& value) {
  constexpr size_t kMost = 80;
  if (value.is_string() && value.text().size() > kMost) {
    return '"' + cut_text(value.text(), kMost) + '"';
  }
  return cut_text(value.dump(), kMost);
}

const JSON::Object& json_object(const JSON& value, const char* name) {
  const JSON& member = value[name];
  check(member.is_object(), "'", name, "' is ", shown(member), ", not an object");
  return member.members();
}

const std::string& json_text(const JSON& value, std::string_view what) {
  check(value.is_string(), what, " is ", shown(value), ", not a text");
  return value.text();
}

}  // namespace hero::core

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include <hero/core/error.h>
#include <hero/core/io/safetensors_header.h>

namespace hero::core::safetensors {
namespace {

using nlohmann::json;

struct Name {
  std::string_view text;
  DType dtype;
};
constexpr Name kNames[] = {{"F32", kFloat32}, {"F64", kFloat64}, {"BF16", kBFloat16},
                           {"F16", kFloat16}, {"I64", kInt64},   {"I32", kInt32},
                           {"U8", kUInt8},    {"BOOL", kBool}};

// Names come from outside.
std::string shown(std::string_view name) { return start_of(name); }

// Receives the JSON piece by piece and accepts nothing but the format: an object of objects with
// three known keys. Depth is bounded by refusing what is deeper, and no tree is built.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::string& label) : label_(label) {}
  Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("not an integer"); }
  bool binary(binary_t&) override { unexpected("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) unexpected("a number");
    numbers_.push_back(value);
    require(
        numbers_.size() <= static_cast<size_t>(place_ == Place::shape ? kMaxDims : 2),
        place_ == Place::shape ? "has more than 8 dimensions" : "has more than two data_offsets");
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      const bool fresh = header_.metadata.emplace(key_, value).second;
      check(fresh, "load_safetensors: ", label_, ": metadata has the key ", shown(key_), " twice");
      return true;
    }
    if (place_ != Place::entry || key_ != "dtype") unexpected("a string");
    require(!dtype_.has_value(), "has dtype twice");
    dtype_ = dtype_named(value);
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      place_ = Place::entry;
      entry_ = {};
      entry_.name = key_;
      dtype_.reset();
      has_shape_ = has_offsets_ = false;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::top) {
      const bool fresh = names_.insert(value).second;
      check(fresh, "load_safetensors: ", label_, " has the name ", shown(value), " twice");
    } else if (place_ == Place::entry && key_ != "dtype" && key_ != "shape" &&
               key_ != "data_offsets") {
      require(false, "has an unknown key " + shown(value));
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      require(dtype_ && has_shape_ && has_offsets_, "lacks one of dtype, shape, data_offsets");
      entry_.dtype = *dtype_;
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::top ? Place::end : Place::top;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::entry && key_ == "shape") {
      require(!has_shape_, "has shape twice");
      place_ = Place::shape;
    } else if (place_ == Place::entry && key_ == "data_offsets") {
      require(!has_offsets_, "has data_offsets twice");
      place_ = Place::offsets;
    } else {
      unexpected("an array");
    }
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    if (place_ == Place::shape) {
      for (const uint64_t size : numbers_) {
        require(size <= uint64_t{INT64_MAX}, "has a size above 2^63");
        entry_.shape.push_back(static_cast<int64_t>(size));
      }
      has_shape_ = true;
    } else {
      require(numbers_.size() == 2, "needs two data_offsets");
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
      has_offsets_ = true;
    }
    place_ = Place::entry;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    fail("load_safetensors: the header of ", label_, " is not valid JSON at byte ", position);
  }

 private:
  enum class Place { start, top, metadata, entry, shape, offsets, end };

  [[noreturn]] void unexpected(std::string_view what) const {
    fail("load_safetensors: the header of ", label_, " has ", what, " where the format has none",
         key_.empty() ? "" : ", at ", key_.empty() ? "" : shown(key_));
  }

  void require(bool ok, std::string_view what) const {
    if (!ok) fail("load_safetensors: ", label_, ": tensor ", shown(entry_.name), " ", what);
  }

  DType dtype_named(std::string_view text) const {
    if (const std::optional<DType> dtype = dtype_of(text)) return *dtype;
    fail("load_safetensors: ", label_, ": tensor ", shown(entry_.name), " has dtype ", shown(text),
         ", which is none of F32 F64 BF16 F16 I64 I32 U8 BOOL; convert it first");
  }

  const std::string& label_;
  Header header_;
  Place place_ = Place::start;
  std::string key_;
  std::unordered_set<std::string> names_;
  Entry entry_;
  std::optional<DType> dtype_;
  bool has_shape_ = false, has_offsets_ = false;
  std::vector<uint64_t> numbers_;
};

void check_extent(const Entry& entry, const std::string& label) {
  // Sizes of 0 count as 1 here, so that no product of sizes overflows anywhere later.
  int64_t padded = item_size(entry.dtype);
  bool over = false, empty = false;
  for (const int64_t size : entry.shape) {
    empty = empty || size == 0;
    over = over || __builtin_mul_overflow(padded, std::max<int64_t>(size, 1), &padded);
  }
  check(!over, "load_safetensors: ", label, ": tensor ", shown(entry.name),
        " has an impossible shape: ", entry.shape);
  const uint64_t needed = empty ? 0 : static_cast<uint64_t>(padded);
  check(entry.begin <= entry.end && entry.end - entry.begin == needed, "load_safetensors: ", label,
        ": tensor ", shown(entry.name), " of shape ", entry.shape, " and dtype ", entry.dtype,
        " needs ", needed, " bytes, its data_offsets are [", entry.begin, ", ", entry.end, "]");
}

void check_cover(const Header& header, uint64_t data_bytes, const std::string& label) {
  std::vector<const Entry*> order;
  for (const Entry& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t at = 0;
  for (const Entry* entry : order) {
    check(entry->begin == at, "load_safetensors: ", label, ": tensor ", shown(entry->name),
          entry->begin < at ? " overlaps the one before it" : " leaves a hole before it",
          ": it begins at byte ", entry->begin, " of the data, expected ", at);
    at = entry->end;
  }
  check(at == data_bytes, "load_safetensors: ", label, " has ", data_bytes,
        " bytes of data, its header speaks of ", at,
        at > data_bytes ? "; the file is truncated" : "; the file has bytes that nobody owns");
}

}  // namespace

std::string_view name_of(DType dtype) {
  for (const Name& name : kNames) {
    if (name.dtype == dtype) return name.text;
  }
  return "";
}

std::optional<DType> dtype_of(std::string_view text) {
  for (const Name& name : kNames) {
    if (name.text == text) return name.dtype;
  }
  return {};
}

std::string start_of(std::string_view name) {
  constexpr size_t kMost = 80;
  std::string text = "'";
  text += name.substr(0, kMost);
  text += name.size() > kMost ? "...'" : "'";
  return text;
}

Header parse_header(std::string_view text, uint64_t data_bytes, const std::string& label) {
  check(!text.empty() && text[0] == '{', "load_safetensors: the header of ", label,
        " does not begin with '{'; it is not a safetensors file");
  HeaderReader reader(label);
  json::sax_parse(text.begin(), text.end(), &reader);
  Header header = reader.take();
  for (const Entry& entry : header.entries) check_extent(entry, label);
  check_cover(header, data_bytes, label);
  take_codecs(header, "load_safetensors: " + label);
  return header;
}

std::string header_text(const Header& header) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) root["__metadata__"] = header.metadata;
  // ordered_json looks a key up by walking, so entries are appended to its vector directly.
  auto& members = root.get_ref<nlohmann::ordered_json::object_t&>();
  for (const Entry& entry : header.entries) {
    nlohmann::ordered_json value;
    value["dtype"] = name_of(entry.dtype);
    value["shape"] = std::vector<int64_t>(entry.shape.begin(), entry.shape.end());
    value["data_offsets"] = {entry.begin, entry.end};
    members.push_back({entry.name, std::move(value)});
  }
  try {
    return root.dump();
  } catch (const nlohmann::json::exception&) {
    fail("save_safetensors: a name or a metadata text is not UTF-8");
  }
}

}  // namespace hero::core::safetensors

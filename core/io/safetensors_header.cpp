#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/io/safetensors_header.h>
#include <hero/core/json/json.h>

namespace hero::core::safetensors {
namespace {

constexpr const char* kMetadata = "__metadata__";

struct Name {
  std::string_view text;
  DType dtype;
};
constexpr Name kNames[] = {{"F32", kFloat32}, {"F64", kFloat64}, {"BF16", kBFloat16},
                           {"F16", kFloat16}, {"I64", kInt64},   {"I32", kInt32},
                           {"U8", kUInt8},    {"BOOL", kBool}};

// The other dtypes that the format has, and how many bits an element takes.
struct Foreign {
  std::string_view text;
  int64_t bits;
};
constexpr Foreign kForeign[] = {
    {"I8", 8},      {"U16", 16},    {"I16", 16},        {"U32", 32},       {"U64", 64},
    {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},    {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"F4", 4},      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};

// An entry of any dtype that the format has.
struct Any {
  Entry entry;
  std::string dtype;
  int64_t bits = 0;
  bool readable = true;
};

// Names come from outside.
std::string shown(std::string_view name) { return start_of(name); }

// Receives the JSON piece by piece and accepts nothing but the format: an object of objects with
// three known keys. Other keys of an entry are passed over, as in Python, whatever lies below
// them; no tree is built.
class HeaderReader : public JSONEvents {
 public:
  explicit HeaderReader(const std::string& label) : label_(label) {}
  Metadata take_metadata() { return std::move(metadata_); }
  std::vector<Any> take_entries() { return std::move(entries_); }

  void null() override {
    const bool no_metadata = place_ == HeaderPart::top && key_ == kMetadata;
    if (!no_metadata) refuse("null");
  }
  void boolean(bool) override { refuse("true or false"); }
  void negative(int64_t) override { refuse("a negative number"); }
  void floating(double) override { refuse("not an integer"); }

  void whole(uint64_t value) override {
    if (passed_over()) return;
    if (place_ != HeaderPart::shape && place_ != HeaderPart::offsets) unexpected("a number");
    numbers_.push_back(value);
    require(numbers_.size() <= static_cast<size_t>(place_ == HeaderPart::shape ? kMaxDims : 2),
            place_ == HeaderPart::shape ? "has more than 8 dimensions"
                                        : "has more than two data_offsets");
  }

  void text(std::string& value) override {
    if (passed_over()) return;
    if (place_ == HeaderPart::metadata) {
      const bool fresh = metadata_.emplace(key_, value).second;
      check(fresh, "load_safetensors: ", label_, ": metadata has the key ", shown(key_), " twice");
      return;
    }
    if (place_ != HeaderPart::entry || key_ != "dtype") unexpected("a string");
    require(any_.dtype.empty(), "has dtype twice");
    take_dtype(value);
  }

  void begin_object() override {
    if (begins_below()) return;
    if (place_ == HeaderPart::start) {
      place_ = HeaderPart::top;
    } else if (place_ == HeaderPart::top && key_ == kMetadata) {
      place_ = HeaderPart::metadata;
    } else if (place_ == HeaderPart::top) {
      place_ = HeaderPart::entry;
      any_ = {};
      any_.entry.name = key_;
      has_shape_ = has_offsets_ = false;
    } else {
      unexpected("an object");
    }
  }

  void name(std::string& value) override {
    if (below_ > 0) return;
    key_ = value;
    if (place_ == HeaderPart::top) {
      const bool fresh = names_.insert(value).second;
      check(fresh, "load_safetensors: ", label_, " has the name ", shown(value), " twice");
    } else if (place_ == HeaderPart::entry && key_ != "dtype" && key_ != "shape" &&
               key_ != "data_offsets") {
      pass_over_ = true;
    }
  }

  void end_object() override {
    if (ends_below()) return;
    if (place_ == HeaderPart::entry) {
      require(!any_.dtype.empty() && has_shape_ && has_offsets_,
              "lacks one of dtype, shape, data_offsets");
      entries_.push_back(std::move(any_));
    }
    place_ = place_ == HeaderPart::top ? HeaderPart::end : HeaderPart::top;
  }

  void begin_array() override {
    if (begins_below()) return;
    if (place_ == HeaderPart::entry && key_ == "shape") {
      require(!has_shape_, "has shape twice");
      place_ = HeaderPart::shape;
    } else if (place_ == HeaderPart::entry && key_ == "data_offsets") {
      require(!has_offsets_, "has data_offsets twice");
      place_ = HeaderPart::offsets;
    } else {
      unexpected("an array");
    }
    numbers_.clear();
  }

  void end_array() override {
    if (ends_below()) return;
    if (place_ == HeaderPart::shape) {
      for (const uint64_t size : numbers_) {
        require(size <= uint64_t{INT64_MAX}, "has a size above 2^63");
        any_.entry.shape.push_back(static_cast<int64_t>(size));
      }
      has_shape_ = true;
    } else {
      require(numbers_.size() == 2, "needs two data_offsets");
      any_.entry.begin = numbers_[0];
      any_.entry.end = numbers_[1];
      has_offsets_ = true;
    }
    place_ = HeaderPart::entry;
  }

  void error(size_t position, const std::string&) override {
    fail("load_safetensors: the header of ", label_, " is not valid JSON at byte ", position);
  }

 private:
  enum class HeaderPart { start, top, metadata, entry, shape, offsets, end };

  // True for a value, or the end of one, that belongs to a key that is passed over.
  bool passed_over() {
    const bool is = pass_over_ || below_ > 0;
    pass_over_ = false;
    return is;
  }
  bool begins_below() {
    const bool is = passed_over();
    below_ += is ? 1 : 0;
    return is;
  }
  bool ends_below() {
    const bool is = below_ > 0;
    below_ -= is ? 1 : 0;
    return is;
  }

  void refuse(std::string_view what) {
    if (!passed_over()) unexpected(what);
  }

  [[noreturn]] void unexpected(std::string_view what) const {
    fail("load_safetensors: the header of ", label_, " has ", what, " where the format has none",
         key_.empty() ? "" : ", at ", key_.empty() ? "" : shown(key_));
  }

  void require(bool ok, std::string_view what) const {
    if (!ok) fail("load_safetensors: ", label_, ": tensor ", shown(any_.entry.name), " ", what);
  }

  void take_dtype(const std::string& text) {
    any_.dtype = text;
    if (const std::optional<DType> dtype = dtype_of(text)) {
      any_.entry.dtype = *dtype;
      any_.bits = 8 * item_size(*dtype);
      return;
    }
    const auto* const found = std::find_if(std::begin(kForeign), std::end(kForeign),
                                           [&](const Foreign& each) { return each.text == text; });
    require(found != std::end(kForeign),
            "has dtype " + shown(text) + ", which the format does not have");
    any_.bits = found->bits;
    any_.readable = false;
  }

  const std::string& label_;
  Metadata metadata_;
  std::vector<Any> entries_;
  HeaderPart place_ = HeaderPart::start;
  std::string key_;
  std::unordered_set<std::string> names_;
  Any any_;
  bool pass_over_ = false;  // the value of this key
  int64_t below_ = 0;       // how deep in a value that is passed over
  bool has_shape_ = false, has_offsets_ = false;
  std::vector<uint64_t> numbers_;
};

void check_extent(const Any& any, const std::string& label) {
  const Entry& entry = any.entry;
  // Sizes of 0 count as 1 here, so that no product of sizes overflows anywhere later.
  int64_t padded = any.bits;
  bool over = false, empty = false;
  for (const int64_t size : entry.shape) {
    empty = empty || size == 0;
    over = over || __builtin_mul_overflow(padded, std::max<int64_t>(size, 1), &padded);
  }
  check(!over, "load_safetensors: ", label, ": tensor ", shown(entry.name),
        " has an impossible shape: ", entry.shape);
  check(empty || padded % 8 == 0, "load_safetensors: ", label, ": tensor ", shown(entry.name),
        " of shape ", entry.shape, " and dtype ", any.dtype, " does not end with a byte");
  const uint64_t needed = empty ? 0 : static_cast<uint64_t>(padded / 8);
  check(entry.begin <= entry.end && entry.end - entry.begin == needed, "load_safetensors: ", label,
        ": tensor ", shown(entry.name), " of shape ", entry.shape, " and dtype ",
        any.readable ? to_string(entry.dtype) : any.dtype, " needs ", needed,
        " bytes, its data_offsets are [", entry.begin, ", ", entry.end, "]");
}

void check_cover(const std::vector<Any>& entries, uint64_t data_bytes, const std::string& label) {
  std::vector<const Entry*> order;
  for (const Any& any : entries) order.push_back(&any.entry);
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
  check(text.find('\0') == text.npos, "load_safetensors: the header of ", label,
        " holds a zero byte; the format fills it up with spaces");
  HeaderReader reader(label);
  read_json(text, reader);
  std::vector<Any> entries = reader.take_entries();
  for (const Any& any : entries) check_extent(any, label);
  check_cover(entries, data_bytes, label);
  Header header;
  header.metadata = reader.take_metadata();
  for (Any& any : entries) {
    if (any.readable) {
      header.entries.push_back(std::move(any.entry));
    } else {
      header.unreadable.emplace(std::move(any.entry.name), std::move(any.dtype));
    }
  }
  take_codecs(header, "load_safetensors: " + label);
  return header;
}

std::string header_text(const Header& header) {
  JSON root = JSON::object();
  if (!header.metadata.empty()) root[kMetadata] = header.metadata;
  for (const Entry& entry : header.entries) {
    root[entry.name] = {{"dtype", name_of(entry.dtype)},
                        {"shape", std::vector<int64_t>(entry.shape.begin(), entry.shape.end())},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  return json_dump(root, "save_safetensors", -1, JSON::Order::added);
}

}  // namespace hero::core::safetensors

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <unordered_map>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/gguf.h>
#include <hero/core/io/file.h>
#include <hero/core/io/gguf_blocks.h>
#include <hero/core/io/name_list.h>

namespace hero::core {
namespace gguf {
namespace {

constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
constexpr int64_t kMostSizes = 4;  // of a tensor in this format
constexpr int kMostNested = 4;     // arrays within arrays
constexpr uint64_t kAlignment = 32;
constexpr const char* kAlignmentKey = "general.alignment";

// Types of values in the metadata, as files write them.
enum class ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64
};
constexpr uint32_t kValueTypes = 13;

// Bytes of a value; 0 for those that have no fixed number.
uint64_t size_of(ValueType type) {
  constexpr uint64_t sizes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return sizes[static_cast<uint32_t>(type)];
}

const char* name_of(ValueType type) {
  constexpr const char* names[kValueTypes] = {"uint8",  "int8",    "uint16", "int16", "uint32",
                                              "int32",  "float32", "bool",   "text",  "array",
                                              "uint64", "int64",   "float64"};
  return names[static_cast<uint32_t>(type)];
}

bool is_whole(ValueType type) {
  return type != ValueType::f32 && type != ValueType::f64 && type != ValueType::boolean &&
         size_of(type) > 0;
}

// Reads a file from its start to its end through a buffer. Every length that it is asked for is
// compared with what is left of the file before anything is allocated.
class Cursor {
 public:
  Cursor(const InputFile& file, uint64_t at) : file_(file), at_(at) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return file_.size() - at_; }
  const std::string& path() const { return file_.path(); }

  void skip(uint64_t bytes, std::string_view what) {
    require(bytes, what);
    at_ += bytes;
  }
  void read(std::span<std::byte> out, std::string_view what) {
    require(out.size(), what);
    if (out.size() > kBuffer) {
      file_.read(at_, out);
    } else {
      if (at_ < begin_ || at_ + out.size() > begin_ + buffer_.size()) fill();
      std::memcpy(out.data(), buffer_.data() + (at_ - begin_), out.size());
    }
    at_ += out.size();
  }
  template <class T>
  T number(std::string_view what) {
    T value;
    read(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }
  std::string text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    require(length, what);
    std::string text(length, ' ');
    if (length > 0) read(std::as_writable_bytes(std::span(text)), what);
    return text;
  }

 private:
  static constexpr uint64_t kBuffer = uint64_t{1} << 16;

  void require(uint64_t bytes, std::string_view what) const {
    check(bytes <= left(), "gguf: ", path(), " ends inside ", what, ", which needs ", bytes,
          " bytes at byte ", at_, " of ", file_.size(), "; the file is truncated or damaged");
  }
  void fill() {
    begin_ = at_;
    buffer_.resize(std::min(kBuffer, left()));
    file_.read(begin_, buffer_);
  }

  const InputFile& file_;
  uint64_t at_;
  uint64_t begin_ = 0;  // of the buffer, in the file
  std::vector<std::byte> buffer_;
};

// A value of the metadata: of a number its bytes, of an array where its elements begin.
struct Value {
  ValueType type = ValueType::u8;
  uint64_t bits = 0;
  std::string text = {};
  ValueType element = ValueType::u8;
  uint64_t count = 0, begin = 0;
};

std::string described(const Value& value) {
  if (value.type != ValueType::array) return name_of(value.type);
  return "array of " + std::to_string(value.count) + " " + name_of(value.element);
}

int64_t whole_of(ValueType type, uint64_t bits, const std::string& where) {
  switch (type) {
    case ValueType::i8:
      return static_cast<int8_t>(bits);
    case ValueType::i16:
      return static_cast<int16_t>(bits);
    case ValueType::i32:
      return static_cast<int32_t>(bits);
    case ValueType::u64:
      check(bits <= uint64_t{INT64_MAX}, where, " is ", bits,
            ", and whole numbers here end at 2^63 - 1");
      return static_cast<int64_t>(bits);
    default:
      return static_cast<int64_t>(bits);
  }
}

double number_of(ValueType type, uint64_t bits, const std::string& where) {
  if (type == ValueType::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (type == ValueType::f64) return std::bit_cast<double>(bits);
  if (type == ValueType::u64) return static_cast<double>(bits);
  return static_cast<double>(whole_of(type, bits, where));
}

// The bytes of a number, the rest 0.
uint64_t read_bits(Cursor& from, ValueType type, std::string_view what) {
  uint64_t bits = 0;
  from.read(std::as_writable_bytes(std::span(&bits, 1)).first(size_of(type)), what);
  return bits;
}

ValueType read_type(Cursor& from, const std::string& what) {
  const auto number = from.number<uint32_t>(what);
  check(number < kValueTypes, "gguf: ", from.path(), ": ", what, " has type ", number,
        ", which the format does not have");
  return static_cast<ValueType>(number);
}

void check_bool(const Cursor& from, uint64_t bits, const std::string& what) {
  check(bits <= 1, "gguf: ", from.path(), ": ", what, " is a bool of the byte ", bits,
        ", neither 0 nor 1");
}

// Goes behind the elements of an array, whose type and number it returns.
std::pair<ValueType, uint64_t> pass_array(Cursor& from, const std::string& what, int nested) {
  check(nested < kMostNested, "gguf: ", from.path(), ": ", what, " has arrays within arrays, ",
        kMostNested, " deep");
  const ValueType type = read_type(from, what);
  const auto count = from.number<uint64_t>(what);
  // Each element has at least so many bytes.
  const uint64_t least = type == ValueType::text    ? 8
                         : type == ValueType::array ? 12
                                                    : size_of(type);
  check(count <= from.left() / least, "gguf: ", from.path(), ": ", what, " claims ", count, " ",
        name_of(type), " elements, and ", from.left(), " bytes are left of the file");
  if (type == ValueType::text) {
    for (uint64_t i = 0; i < count; ++i) from.skip(from.number<uint64_t>(what), what);
  } else if (type == ValueType::array) {
    for (uint64_t i = 0; i < count; ++i) pass_array(from, what, nested + 1);
  } else if (type == ValueType::boolean) {
    for (uint64_t i = 0; i < count; ++i) check_bool(from, read_bits(from, type, what), what);
  } else {
    from.skip(count * size_of(type), what);
  }
  return {type, count};
}

Value read_value(Cursor& from, const std::string& what) {
  Value value{.type = read_type(from, what)};
  if (value.type == ValueType::text) {
    value.text = from.text(what);
  } else if (value.type == ValueType::array) {
    value.begin = from.at() + 12;  // behind the type and number of its elements
    const auto [element, count] = pass_array(from, what, 0);
    value.element = element;
    value.count = count;
  } else {
    value.bits = read_bits(from, value.type, what);
    if (value.type == ValueType::boolean) check_bool(from, value.bits, what);
  }
  return value;
}

// A name from the file, for errors.
std::string in_quotes(std::string_view name) { return "'" + cut_text(name) + "'"; }

struct ListedTensor {
  GGUFReader::Entry entry;
  const BlockType* type = nullptr;  // null: not one that is known by name
};

// A tensor's line in the list; its place is still counted from the start of the data.
ListedTensor read_tensor(Cursor& from) {
  ListedTensor tensor;
  GGUFReader::Entry& entry = tensor.entry;
  entry.name = from.text("the name of a tensor");
  const std::string what = "tensor " + in_quotes(entry.name);
  const auto fails = [&](const auto&... parts) {
    fail("gguf: ", from.path(), ": ", what, " ", parts...);
  };
  const auto sizes = from.number<uint32_t>(what);
  if (sizes > kMostSizes) fails("has ", sizes, " dimensions; the format has at most ", kMostSizes);
  std::vector<int64_t> reversed;
  for (uint32_t i = 0; i < sizes; ++i) {
    const auto size = from.number<uint64_t>(what);
    if (size > uint64_t{INT64_MAX}) fails("has a size of ", size, ", above 2^63 - 1");
    reversed.push_back(static_cast<int64_t>(size));
  }
  for (auto size = reversed.rbegin(); size != reversed.rend(); ++size) {
    entry.shape.push_back(*size);
  }
  const auto number = from.number<uint32_t>(what);
  tensor.type = gguf::block_type(number);
  entry.type = tensor.type != nullptr ? tensor.type->name : "type " + std::to_string(number);
  entry.readable = tensor.type != nullptr && tensor.type->bytes > 0;
  entry.in_blocks = entry.readable && tensor.type->elements > 1 && sizes == 2;
  entry.begin = from.number<uint64_t>(what);
  if (!entry.readable) return tensor;

  // Sizes of 0 count as 1 here, so that no product of sizes overflows anywhere later.
  int64_t padded = 8;
  bool over = false, empty = false;
  for (const int64_t size : entry.shape) {
    empty = empty || size == 0;
    over = over || __builtin_mul_overflow(padded, std::max<int64_t>(size, 1), &padded);
  }
  if (over) fails("has an impossible shape: ", entry.shape);
  const int64_t row = entry.shape.empty() ? 1 : entry.shape.back();
  if (row % tensor.type->elements != 0) {
    fails("of type ", entry.type, " has rows of ", row, " elements, which are no whole blocks of ",
          tensor.type->elements);
  }
  // No type has more than 8 bytes an element, so this product is at most `padded`.
  const int64_t blocks = empty ? 0 : padded / 8 / tensor.type->elements;
  entry.bytes = static_cast<uint64_t>(blocks * tensor.type->bytes);
  return tensor;
}

}  // namespace
}  // namespace gguf

struct GGUFReader::File {
  explicit File(const std::string& path) : input(path) {
    gguf::Cursor from(input, 0);
    read_start(from);
    const auto tensor_count = from.number<uint64_t>("the number of tensors");
    const auto key_count = from.number<uint64_t>("the number of keys");
    // Each has at least so many bytes.
    check(tensor_count <= from.left() / 24 && key_count <= from.left() / 13, "gguf: ", path,
          " claims ", tensor_count, " tensors and ", key_count, " keys, and has ", from.left(),
          " bytes behind these numbers");
    for (uint64_t i = 0; i < key_count; ++i) {
      std::string key = from.text("a key");
      gguf::Value value = gguf::read_value(from, "key " + gguf::in_quotes(key));
      const bool fresh = values.emplace(key, std::move(value)).second;
      check(fresh, "gguf: ", path, " has the key ", gguf::in_quotes(key), " twice");
      keys.push_back(std::move(key));
    }
    for (uint64_t i = 0; i < tensor_count; ++i) {
      gguf::ListedTensor tensor = gguf::read_tensor(from);
      const bool fresh = places.emplace(tensor.entry.name, entries.size()).second;
      check(fresh, "gguf: ", path, " has the tensor ", gguf::in_quotes(tensor.entry.name),
            " twice");
      entries.push_back(std::move(tensor.entry));
      types.push_back(tensor.type);
    }
    place_tensors(from.at());
  }

  void read_start(gguf::Cursor& from) {
    char magic[4] = {};
    from.read(std::as_writable_bytes(std::span(magic)), "its first four bytes");
    check(std::equal(std::begin(magic), std::end(magic), gguf::kMagic), "gguf: ", input.path(),
          " is no GGUF file: it does not begin with GGUF");
    version = from.number<uint32_t>("its version");
    check(version == 0 || version % 65536 != 0, "gguf: ", input.path(),
          " is big-endian; convert it on a machine of that kind, or take the little-endian file");
    check(version == 2 || version == 3, "gguf: ", input.path(), " has version ", version,
          ", and 2 and 3 are read here; convert it with a current llama.cpp");
  }

  // The data begin at a multiple of the alignment behind the list, and so does each tensor in them.
  void place_tensors(uint64_t list_end) {
    const uint64_t alignment = alignment_of();
    const uint64_t begin = list_end + (alignment - list_end % alignment) % alignment;
    std::vector<const Entry*> order;
    for (Entry& entry : entries) {
      const auto where = [&] {
        return "gguf: " + input.path() + ": tensor " + gguf::in_quotes(entry.name);
      };
      const uint64_t room = input.size() - std::min(begin, input.size());
      check(entry.begin % alignment == 0, where(), " begins at byte ", entry.begin,
            " of the data, which is no multiple of the alignment ", alignment);
      check(entry.begin <= room && entry.bytes <= room - entry.begin, where(), " needs ",
            entry.bytes, " bytes from byte ", entry.begin, " of the data, of which there are ",
            room, "; the file is truncated or damaged");
      entry.begin += begin;
      if (entry.bytes > 0 || !entry.readable) order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(),
              [](const Entry* a, const Entry* b) { return a->begin < b->begin; });
    for (size_t i = 1; i < order.size(); ++i) {
      const Entry &one = *order[i - 1], &next = *order[i];
      check(one.begin + one.bytes <= next.begin, "gguf: ", input.path(), ": tensors ",
            gguf::in_quotes(one.name), " and ", gguf::in_quotes(next.name),
            " share bytes: the second begins at byte ", next.begin, ", the first ends at ",
            one.begin + one.bytes);
    }
    check_no_gaps(order, begin, alignment);
  }

  // Bytes that belong to no tensor mean one that is marked with another type than it has. How many
  // bytes a tensor of an unknown type has is not known.
  void check_no_gaps(const std::vector<const Entry*>& order, uint64_t begin,
                     uint64_t alignment) const {
    uint64_t end = begin;
    std::string behind = "the list of tensors";
    const auto check_next = [&](uint64_t next, const std::string& what) {
      check(next < end + alignment, "gguf: ", input.path(), ": ", what, " ", next - end,
            " bytes behind ", behind, ", more than the alignment ", alignment,
            " asks for; a tensor's type or shape is not that of its bytes");
    };
    for (const Entry* entry : order) {
      const std::string name = "tensor " + gguf::in_quotes(entry->name);
      check_next(entry->begin, name + " begins");
      if (!entry->readable) return;
      end = entry->begin + entry->bytes;
      behind = "the end of " + name;
    }
    check_next(input.size(), "the file ends");
  }

  uint64_t alignment_of() const {
    const gguf::Value* value = find(gguf::kAlignmentKey);
    if (value == nullptr) return gguf::kAlignment;
    if (value->type != gguf::ValueType::u32) fail_type(gguf::kAlignmentKey, *value, "a uint32");
    check(std::has_single_bit(value->bits), where(gguf::kAlignmentKey), " is ", value->bits,
          "; it must be a power of two");
    return value->bits;
  }

  const gguf::Value* find(std::string_view key) const {
    const auto found = values.find(std::string(key));
    return found == values.end() ? nullptr : &found->second;
  }
  std::string where(std::string_view key) const {
    return "gguf: " + input.path() + ": key " + gguf::in_quotes(key);
  }
  [[noreturn]] void fail_type(std::string_view key, const gguf::Value& value,
                              const char* expected) const {
    fail(where(key), " is of type ", gguf::described(value), "; ", expected, " is needed");
  }

  InputFile input;
  uint32_t version = 0;
  std::vector<std::string> keys;
  std::unordered_map<std::string, gguf::Value> values;
  std::vector<Entry> entries;
  std::vector<const gguf::BlockType*> types;  // of the entries
  std::unordered_map<std::string, size_t> places;
};

GGUFReader::GGUFReader(const std::string& path)
    : file_(with_file_errors("gguf", path, [&] { return std::make_unique<File>(path); })) {}
GGUFReader::~GGUFReader() = default;
GGUFReader::GGUFReader(GGUFReader&&) noexcept = default;

const GGUFReader::File& GGUFReader::file() const {
  check(file_ != nullptr, "gguf: the reader was moved from; use the one that it was moved into");
  return *file_;
}

const std::string& GGUFReader::path() const { return file().input.path(); }
uint32_t GGUFReader::version() const { return file().version; }
const std::vector<std::string>& GGUFReader::keys() const { return file().keys; }
bool GGUFReader::has(std::string_view key) const { return file().find(key) != nullptr; }

std::optional<int64_t> GGUFReader::integer(std::string_view key) const {
  const gguf::Value* value = file().find(key);
  if (value == nullptr) return {};
  if (!gguf::is_whole(value->type)) file().fail_type(key, *value, "a whole number");
  return gguf::whole_of(value->type, value->bits, file().where(key));
}

std::optional<double> GGUFReader::number(std::string_view key) const {
  const gguf::Value* value = file().find(key);
  if (value == nullptr) return {};
  if (gguf::size_of(value->type) == 0 || value->type == gguf::ValueType::boolean) {
    file().fail_type(key, *value, "a number");
  }
  return gguf::number_of(value->type, value->bits, file().where(key));
}

std::optional<bool> GGUFReader::flag(std::string_view key) const {
  const gguf::Value* value = file().find(key);
  if (value == nullptr) return {};
  if (value->type != gguf::ValueType::boolean) file().fail_type(key, *value, "true or false");
  return value->bits == 1;
}

std::optional<std::string> GGUFReader::text(std::string_view key) const {
  const gguf::Value* value = file().find(key);
  if (value == nullptr) return {};
  if (value->type != gguf::ValueType::text) file().fail_type(key, *value, "a text");
  return value->text;
}

namespace gguf {
namespace {

// The elements of an array, each of which `element` makes of its bits.
template <class File, class Element>
auto list_of(const File& file, const std::string& path, std::string_view key, const Value& value,
             const Element& element) {
  return with_file_errors("gguf", path, [&] {
    std::vector<decltype(element(value.element, uint64_t{}, std::string()))> list;
    list.reserve(value.count);
    Cursor from(file.input, value.begin);
    const std::string where = file.where(key);
    for (uint64_t i = 0; i < value.count; ++i) {
      list.push_back(element(value.element, read_bits(from, value.element, key), where));
    }
    return list;
  });
}

}  // namespace
}  // namespace gguf

std::optional<std::vector<int64_t>> GGUFReader::integers(std::string_view key) const {
  const gguf::Value* value = file().find(key);
  if (value == nullptr) return {};
  if (value->type != gguf::ValueType::array || !gguf::is_whole(value->element)) {
    file().fail_type(key, *value, "an array of whole numbers");
  }
  return gguf::list_of(file(), path(), key, *value, gguf::whole_of);
}

std::optional<std::vector<double>> GGUFReader::numbers(std::string_view key) const {
  const gguf::Value* value = file().find(key);
  if (value == nullptr) return {};
  if (value->type != gguf::ValueType::array || gguf::size_of(value->element) == 0 ||
      value->element == gguf::ValueType::boolean) {
    file().fail_type(key, *value, "an array of numbers");
  }
  return gguf::list_of(file(), path(), key, *value, gguf::number_of);
}

std::optional<std::vector<std::string>> GGUFReader::texts(std::string_view key) const {
  const gguf::Value* value = file().find(key);
  if (value == nullptr) return {};
  if (value->type != gguf::ValueType::array || value->element != gguf::ValueType::text) {
    file().fail_type(key, *value, "an array of texts");
  }
  return with_file_errors("gguf", path(), [&] {
    std::vector<std::string> list;
    gguf::Cursor from(file().input, value->begin);
    for (uint64_t i = 0; i < value->count; ++i) list.push_back(from.text(key));
    return list;
  });
}

const std::vector<GGUFReader::Entry>& GGUFReader::entries() const { return file().entries; }

const GGUFReader::Entry* GGUFReader::find(std::string_view name) const {
  const auto found = file().places.find(std::string(name));
  return found == file().places.end() ? nullptr : &file().entries[found->second];
}

const GGUFReader::Entry& GGUFReader::readable(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) {
    NameList list;
    for (const Entry& one : entries()) list.add(one.name);
    fail("gguf: ", path(), " has no tensor ", gguf::in_quotes(name), " among ", entries().size(),
         ": ", list.text());
  }
  check(entry->readable, "gguf: ", path(), ": tensor ", gguf::in_quotes(name), " is stored as ",
        entry->type, ", which is none of ", gguf::readable_types(),
        "; convert the file to one of these");
  return *entry;
}

Array GGUFReader::load_blocks(std::string_view name) const {
  const Entry& entry = readable(name);
  const gguf::BlockType& type = *file().types[static_cast<size_t>(&entry - entries().data())];
  check(entry.in_blocks, "gguf: ", path(), ": tensor ", gguf::in_quotes(name), " of type ",
        entry.type, " and shape ", entry.shape, " is no matrix in blocks; read it with load()");
  return with_file_errors("gguf", path(), [&] {
    const int64_t row = entry.shape[1] / type.elements * type.bytes;
    Array blocks = Array::empty({entry.shape[0], row}, kUInt8);
    if (entry.bytes > 0) {
      file().input.read(entry.begin, std::span(blocks.bytes(), static_cast<size_t>(entry.bytes)));
    }
    return blocks;
  });
}

Array GGUFReader::load(std::string_view name, DType dtype) const {
  check(is_floating(dtype), "gguf: tensors are read as floating numbers, not as ", dtype);
  const Entry* entry = &readable(name);
  const gguf::BlockType& type = *file().types[static_cast<size_t>(entry - entries().data())];
  return with_file_errors("gguf", path(), [&] {
    Array array = Array::empty(entry->shape, dtype);
    if (entry->bytes == 0) return array;
    const auto block_bytes = static_cast<uint64_t>(type.bytes);
    const uint64_t most = (uint64_t{1} << 22) / block_bytes * block_bytes;  // read at once
    std::vector<std::byte> blocks(std::min(most, entry->bytes));
    for (uint64_t at = 0; at < entry->bytes; at += blocks.size()) {
      const std::span now = std::span(blocks).first(std::min(most, entry->bytes - at));
      file().input.read(entry->begin + at, now);
      const auto first = static_cast<int64_t>(at / block_bytes) * type.elements;
      gguf::decode(type, now.data(), static_cast<int64_t>(now.size() / block_bytes), dtype,
                   array.bytes() + first * item_size(dtype));
    }
    return array;
  });
}

}  // namespace hero::core

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/io/source.h>
#include <hero/core/io/stored_numbers.h>
#include <hero/core/npy.h>

namespace hero::core {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr uint64_t kMaxHeaderBytes = 1 << 16;  // a real one has about a hundred

struct Name {
  std::string_view text;
  DType dtype;
};
constexpr Name kNames[] = {{"b1", kBool},    {"u1", kUInt8},   {"i4", kInt32},  {"i8", kInt64},
                           {"f2", kFloat16}, {"f4", kFloat32}, {"f8", kFloat64}};

// Integers of which arrays have no dtype, and the smallest one that holds their values.
struct WideName {
  std::string_view text;
  DType dtype;
  int64_t bytes;
  bool is_signed;
};
constexpr WideName kWideNames[] = {{"i1", kInt32, 1, true},
                                   {"i2", kInt32, 2, true},
                                   {"u2", kInt32, 2, false},
                                   {"u4", kInt64, 4, false},
                                   {"u8", kInt64, 8, false}};

// What an element is in the file, and in the array.
struct Element {
  DType dtype;
  StoredNumber stored;
  bool is_widened = false;
};

struct NpyHeader {
  std::optional<Element> element;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;
};

// The header is a Python dict of three known keys; this reads exactly that much Python.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& label) : text_(text), label_(label) {}

  NpyHeader parse() {
    NpyHeader header;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        require(!header.element, "the key 'descr' twice");
        header.element = descr();
      } else if (key == "fortran_order") {
        require(!header.fortran, "the key 'fortran_order' twice");
        header.fortran = truth();
      } else if (key == "shape") {
        require(!header.shape, "the key 'shape' twice");
        header.shape = shape();
      } else {
        stop("a key that is none of descr, fortran_order, shape");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    require(at_ == text_.size(), "text after the closing brace");
    require(header.element && header.fortran && header.shape,
            "not all of descr, fortran_order, shape");
    return header;
  }

 private:
  [[noreturn]] void stop(std::string_view what) const {
    fail("load_npy: the header of ", label_, " is malformed at character ", at_, ": ", what);
  }
  void require(bool ok, std::string_view what) const {
    if (!ok) stop(what);
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != text_.npos) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) stop(std::string("expected ") + c);
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::string_view quoted() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = text_.find(quote, at_);
    require(end != text_.npos, "a string without an end");
    const std::string_view inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }

  bool truth() {
    if (accept_word("True")) return true;
    if (!accept_word("False")) stop("expected True or False");
    return false;
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      sizes.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  int64_t integer() {
    skip_space();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const bool over = __builtin_mul_overflow(value, int64_t{10}, &value) ||
                        __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value);
      require(!over, "a size above 2^63");
    }
    require(at_ > begin, "expected a size");
    accept('L');  // Python 2 wrote long integers so
    return value;
  }

  Element descr() {
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(')) {
      fail("load_npy: ", label_, " has a structured dtype; save one array for each field");
    }
    const std::string_view text = quoted();
    const bool prefixed = !text.empty() && std::string_view("<>|=").find(text[0]) != text.npos;
    const bool is_big_endian = prefixed && text[0] == '>';
    const std::string_view code = text.substr(prefixed ? 1 : 0);
    for (const Name& name : kNames) {
      if (code != name.text) continue;
      return {name.dtype, {.bytes = item_size(name.dtype), .is_big_endian = is_big_endian}};
    }
    for (const WideName& name : kWideNames) {
      if (code != name.text) continue;
      return {name.dtype, {name.bytes, name.is_signed, is_big_endian}, true};
    }
    fail("load_npy: ", label_, " has dtype '", cut_text(text),
         "', which is none of b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8; convert it first");
  }

  std::string_view text_;
  const std::string& label_;
  size_t at_ = 0;
};

struct Layout {
  NpyHeader header;
  uint64_t data_begin = 0;
};

Layout read_layout(const Source& source) {
  const std::string label = source.label();
  std::byte start[12] = {};
  check(source.size() >= 10, "load_npy: ", label, " has ", source.size(),
        " bytes, too few for a header");
  source.read(0, std::span(start, 10));
  const auto byte = [&](int i) { return std::to_integer<uint64_t>(start[i]); };
  check(std::string_view(reinterpret_cast<const char*>(start), 6) == kMagic, "load_npy: ", label,
        " is not a .npy file");
  const uint64_t major = byte(6), minor = byte(7);
  check(major >= 1 && major <= 3 && minor == 0, "load_npy: ", label, " has version ", major, ".",
        minor, ", known are 1.0, 2.0, 3.0");
  uint64_t begin = 10, length = byte(8) | byte(9) << 8;
  if (major > 1) {
    source.read(10, std::span(start + 10, 2));
    begin = 12;
    length |= byte(10) << 16 | byte(11) << 24;
  }
  check(length <= kMaxHeaderBytes, "load_npy: ", label, " claims a header of ", length,
        " bytes, more than ", kMaxHeaderBytes);
  check(length <= source.size() - begin, "load_npy: ", label, " ends inside its header");
  std::string text(length, ' ');
  source.read(begin, std::as_writable_bytes(std::span(text)));
  return {HeaderParser(text, label).parse(), begin + length};
}

// Bytes of an array of that shape. Sizes of 0 count as 1, so that no product of sizes overflows
// anywhere later, an empty array's strides included.
std::optional<int64_t> bytes_of(const std::vector<int64_t>& shape, int64_t item) {
  int64_t padded = item;
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(padded, std::max<int64_t>(size, 1), &padded)) return std::nullopt;
  }
  return empty ? 0 : padded;
}

// Integers that are widened go through a buffer, so that a file takes no second copy of itself.
void read_widened(const Source& source, uint64_t begin, const Element& element,
                  const Array& array) {
  constexpr int64_t kElements = 1 << 16;
  const StoredNumber& stored = element.stored;
  const int64_t all = array.numel();
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(all, kElements) * stored.bytes));
  for (int64_t done = 0; done < all; done += kElements) {
    const int64_t count = std::min(all - done, kElements);
    const std::span part(buffer.data(), static_cast<size_t>(count * stored.bytes));
    source.read(begin + static_cast<uint64_t>(done * stored.bytes), part);
    const int64_t fit = widen_integers(part, stored, element.dtype,
                                       array.bytes() + done * item_size(element.dtype));
    if (fit == count) continue;
    const auto large = std::span<const std::byte>(part).subspan(static_cast<size_t>(fit * 8));
    fail("load_npy: ", source.label(), " has ", stored_integer(large, stored), " at element ",
         done + fit, ", more than int64 holds; convert it first");
  }
}

Array load_array(const Source& source) {
  const Layout layout = read_layout(source);
  const std::string label = source.label();
  const std::vector<int64_t>& sizes = *layout.header.shape;
  const Element element = *layout.header.element;
  const DType dtype = element.dtype;
  check(sizes.size() <= kMaxDims, "load_npy: ", label, " has ", sizes.size(),
        " dimensions, more than ", kMaxDims);
  const int64_t item = element.stored.bytes;
  const std::optional<int64_t> bytes = bytes_of(sizes, item);
  // the array's bytes may be more than the file's
  check(bytes.has_value() && bytes_of(sizes, item_size(dtype)).has_value(), "load_npy: ", label,
        " has an impossible shape: ", Dims(sizes));
  const uint64_t held = source.size() - layout.data_begin;
  check(static_cast<uint64_t>(*bytes) == held, "load_npy: ", label, " holds ", held,
        " bytes of data, shape ", Dims(sizes), " of ", item, " bytes each needs ", *bytes);
  const bool fortran = *layout.header.fortran;
  Shape shape(fortran ? std::vector<int64_t>(sizes.rbegin(), sizes.rend()) : sizes);
  Array array = Array::empty(shape, dtype);
  if (element.is_widened) {
    read_widened(source, layout.data_begin, element, array);
  } else if (held > 0) {
    const std::span values(array.bytes(), held);
    source.read(layout.data_begin, values);
    if (element.stored.is_big_endian) reverse_numbers(values, item);
  }
  if (dtype == kBool) {
    const auto* raw = reinterpret_cast<const unsigned char*>(held > 0 ? array.bytes() : nullptr);
    for (uint64_t i = 0; i < held; ++i) {
      check(raw[i] <= 1, "load_npy: ", label,
            " has a bool that is neither 0 nor 1: ", static_cast<int64_t>(raw[i]), " at element ",
            i);
    }
  }
  if (!fortran || sizes.size() < 2) return array;
  Dims reversed;
  for (int i = shape.size(); i-- > 0;) reversed.push_back(i);
  return array.permute(reversed).contiguous();
}

std::string header_text(const Array& array) {
  std::string_view code;
  for (const Name& name : kNames) {
    if (name.dtype == array.dtype()) code = name.text;
  }
  check(!code.empty(), "save_npy: NumPy has no ", array.dtype(), "; convert it, e.g. to float32");
  std::string text = "{'descr': '";
  text += item_size(array.dtype()) == 1 ? '|' : '<';
  text += code;
  text += "', 'fortran_order': False, 'shape': (";
  for (const int64_t size : array.shape()) text += std::to_string(size) + ", ";
  if (array.ndim() > 1) text.resize(text.size() - 2);
  if (array.ndim() == 1) text.pop_back();
  text += "), }";
  // The data begin at a multiple of 64, as NumPy has it, so that a mapped file is aligned.
  const size_t unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  return text + '\n';
}

}  // namespace

Array load_npy(const std::string& path) {
  return with_file_errors("load_npy", path, [&] {
    const InputFile file(path);
    return load_array(Source(file));
  });
}

Array parse_npy(std::span<const std::byte> bytes) { return load_array(Source(bytes)); }

void save_npy(const std::string& path, const Array& array) {
  check(array.defined(), "save_npy: the array is undefined");
  check(array.device() != kMeta, "save_npy: a meta array has no values");
  const std::string text = header_text(array);
  const Array values = array.to(kCpu).contiguous();
  OutputFile file(path);
  std::string start(kMagic);
  start += '\x01';
  start += '\0';
  start += static_cast<char>(text.size() & 0xff);
  start += static_cast<char>(text.size() >> 8);
  file.write(start + text);
  if (values.nbytes() > 0) {
    file.write(std::span(values.bytes(), static_cast<size_t>(values.nbytes())));
  }
  file.commit();
}

}  // namespace hero::core

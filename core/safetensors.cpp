#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unordered_set>
#include <utility>

#include <hero/core/error.h>
#include <hero/core/file.h>
#include <hero/core/safetensors.h>
#include <hero/core/safetensors_header.h>
#include <hero/core/source.h>

namespace hero::core {
namespace {

using safetensors::Entry;
using safetensors::Header;

constexpr uint64_t kLengthBytes = 8;

struct Opened {
  Header header;
  uint64_t data_begin = 0;
};

Opened open(const Source& source) {
  const std::string label = source.label();
  check(source.size() >= kLengthBytes, "load_safetensors: ", label, " has ", source.size(),
        " bytes, too few for a header");
  std::byte start[kLengthBytes];
  source.read(0, start);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(start[i]) << (8 * i);
  }
  check(length <= safetensors::kMaxHeaderBytes, "load_safetensors: ", label, " claims a header of ",
        length, " bytes, the limit is ", safetensors::kMaxHeaderBytes);
  check(length <= source.size() - kLengthBytes, "load_safetensors: ", label,
        " ends inside its header of ", length, " bytes");
  std::string text(length, ' ');
  source.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const uint64_t begin = kLengthBytes + length;
  return {safetensors::parse_header(text, source.size() - begin, label), begin};
}

Array read_array(const Source& source, uint64_t data_begin, const Entry& entry) {
  Array array = Array::empty(entry.shape, entry.dtype);
  if (entry.begin == entry.end) return array;
  const std::span bytes(array.bytes(), entry.end - entry.begin);
  source.read(data_begin + entry.begin, bytes);
  if (entry.dtype == kBool) {
    // Any other byte in a bool is undefined behaviour later on.
    const auto bad =
        std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    check(bad == bytes.end(), "load_safetensors: ", source.label(), ": tensor '", entry.name,
          "' is BOOL and has a byte that is neither 0 nor 1, at element ", bad - bytes.begin());
  }
  return array;
}

NamedArrays load(const Source& source) {
  Opened opened = open(source);
  NamedArrays result;
  for (const Entry& entry : opened.header.entries) {
    result.arrays.push_back({entry.name, read_array(source, opened.data_begin, entry)});
  }
  result.metadata = std::move(opened.header.metadata);
  return result;
}

template <class Named>
[[noreturn]] void fail_missing(std::string_view name, const std::vector<Named>& all) {
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(all.size(), 8); ++i) list += " " + all[i].name;
  fail("safetensors: there is no tensor '", name, "' among ", all.size(), ":", list,
       all.size() > 8 ? " ..." : "");
}

void check_savable(std::span<const NamedArray> arrays) {
  std::unordered_set<std::string_view> names;
  for (const NamedArray& one : arrays) {
    check(one.array.defined(), "save_safetensors: tensor '", one.name, "' is undefined");
    check(one.array.device() != kMeta, "save_safetensors: tensor '", one.name,
          "' is on meta and has no values");
    check(one.name != "__metadata__",
          "save_safetensors: the name __metadata__ is taken by the format");
    check(names.insert(one.name).second, "save_safetensors: two tensors are named '", one.name,
          "'");
  }
}

// Wider elements first: every array is then aligned to its own element, and the format allows no
// padding between them.
std::vector<size_t> data_order(std::span<const NamedArray> arrays) {
  std::vector<size_t> order(arrays.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return item_size(arrays[a].array.dtype()) > item_size(arrays[b].array.dtype());
  });
  return order;
}

}  // namespace

const Array& NamedArrays::at(std::string_view name) const {
  for (const NamedArray& one : arrays) {
    if (one.name == name) return one.array;
  }
  fail_missing(name, arrays);
}

void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata) {
  check_savable(arrays);
  Header header;
  header.metadata = metadata;
  header.metadata.emplace("format", "pt");
  for (const NamedArray& one : arrays) {
    header.entries.push_back({one.name, one.array.dtype(), one.array.shape(), 0, 0});
  }
  const std::vector<size_t> order = data_order(arrays);
  uint64_t at = 0;
  for (const size_t i : order) {
    header.entries[i].begin = at;
    header.entries[i].end = at += static_cast<uint64_t>(arrays[i].array.nbytes());
  }
  std::string text = safetensors::header_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begin at a multiple of 8
  check(text.size() <= safetensors::kMaxHeaderBytes, "save_safetensors: the header for ",
        arrays.size(), " tensors has ", text.size(), " bytes, the limit is ",
        safetensors::kMaxHeaderBytes);
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xff);
  }
  OutputFile file(path);
  file.write(length + text);
  for (const size_t i : order) {
    if (arrays[i].array.numel() == 0) continue;
    const Array values = arrays[i].array.to(kCpu).contiguous();
    file.write(std::span(values.bytes(), static_cast<size_t>(values.nbytes())));
  }
  file.commit();
}

NamedArrays load_safetensors(const std::string& path) {
  const InputFile file(path);
  return load(Source(file));
}

NamedArrays parse_safetensors(std::span<const std::byte> bytes) { return load(Source(bytes)); }

struct SafetensorsReader::File {
  explicit File(const std::string& path) : input(path), opened(open(Source(input))) {}
  InputFile input;
  Opened opened;
};

SafetensorsReader::SafetensorsReader(const std::string& path)
    : file_(std::make_unique<File>(path)) {}
SafetensorsReader::~SafetensorsReader() = default;
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;

const std::vector<Entry>& SafetensorsReader::entries() const {
  return file_->opened.header.entries;
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

const Metadata& SafetensorsReader::metadata() const { return file_->opened.header.metadata; }

bool SafetensorsReader::contains(std::string_view name) const {
  return std::any_of(entries().begin(), entries().end(),
                     [&](const Entry& entry) { return entry.name == name; });
}

Array SafetensorsReader::load(std::string_view name) const {
  for (const Entry& entry : entries()) {
    if (entry.name == name)
      return read_array(Source(file_->input), file_->opened.data_begin, entry);
  }
  fail_missing(name, entries());
}

}  // namespace hero::core

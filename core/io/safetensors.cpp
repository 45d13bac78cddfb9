#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <hero/core/device/backend.h>
#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/io/safetensors_header.h>
#include <hero/core/io/source.h>
#include <hero/core/safetensors.h>

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
  check(length <= safetensors::kMaxHeaderBytes, "load_safetensors: ", label,
        " is no .safetensors file: its first bytes claim a header of ", length,
        " bytes; convert a .pt or .bin file in Python, with safetensors.torch.save_file()");
  check(length <= source.size() - kLengthBytes, "load_safetensors: ", label,
        " ends inside its header of ", length, " bytes");
  std::string text(length, ' ');
  source.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const uint64_t begin = kLengthBytes + length;
  return {safetensors::parse_header(text, source.size() - begin, label), begin};
}

// Any other byte in a bool is undefined behaviour later on.
void check_bools(const Source& source, const Entry& entry, std::span<const std::byte> bytes) {
  if (entry.dtype != kBool) return;
  const auto bad =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  check(bad == bytes.end(), "load_safetensors: ", source.label(), ": tensor '", entry.name,
        "' is BOOL and has a byte that is neither 0 nor 1, at element ", bad - bytes.begin());
}

// Elements of an array from `first` on, into cpu memory.
void read_elements(const Source& source, const Opened& opened, const Entry& entry, int64_t first,
                   const Array& into) {
  if (into.numel() == 0) return;
  const uint64_t begin = opened.data_begin + entry.begin;
  if (const Codec* codec = opened.header.codec_of(entry)) {
    return safetensors::read_encoded(
        *codec, first, into,
        [&](uint64_t at, std::span<std::byte> bytes) { source.read(begin + at, bytes); });
  }
  const std::span bytes(into.bytes(), static_cast<size_t>(into.nbytes()));
  source.read(begin + static_cast<uint64_t>(first * item_size(entry.dtype)), bytes);
  check_bools(source, entry, bytes);
}

Array read_array(const Source& source, const Opened& opened, const Entry& entry) {
  Array array = Array::empty(entry.shape, entry.dtype);
  read_elements(source, opened, entry, 0, array);
  return array;
}

[[noreturn]] void fail_unreadable(const Source& source, const std::string& name,
                                  const std::string& dtype, const char* advice = "") {
  fail("load_safetensors: ", source.label(), ": tensor ", safetensors::start_of(name),
       " has dtype '", dtype,
       "', which is none of F32 F64 BF16 F16 I64 I32 U8 BOOL; convert it first", advice);
}

NamedArrays load(const Source& source) {
  Opened opened = open(source);
  for (const auto& [name, dtype] : opened.header.unreadable) {
    fail_unreadable(source, name, dtype, ", or read the others with SafetensorsReader");
  }
  NamedArrays result;
  for (const Entry& entry : opened.header.entries) {
    result.arrays.push_back({entry.name, read_array(source, opened, entry)});
  }
  result.metadata = std::move(opened.header.metadata);
  return result;
}

template <class Named>
[[noreturn]] void fail_missing(std::string_view name, const std::vector<Named>& all) {
  NameList list;
  for (const Named& one : all) list.add(one.name);
  fail("safetensors: there is no tensor '", cut_text(name), "' among ", all.size(), ": ",
       list.text());
}

void check_names(const std::vector<Entry>& entries) {
  std::unordered_set<std::string_view> names;
  for (const Entry& one : entries) {
    check(one.name != "__metadata__",
          "save_safetensors: the name __metadata__ is taken by the format");
    check(names.insert(one.name).second, "save_safetensors: two tensors are named '", one.name,
          "'");
  }
}

}  // namespace

const Array& NamedArrays::at(std::string_view name) const {
  for (const NamedArray& one : arrays) {
    if (one.name == name) return one.array;
  }
  fail_missing(name, arrays);
}

namespace safetensors {

Layout layout_of(std::vector<Entry> entries, const Metadata& metadata) {
  check_names(entries);
  std::vector<size_t> order = SafetensorsWriter::order_of(entries);
  uint64_t at = 0;
  for (const size_t i : order) {
    Entry& entry = entries[i];
    entry.begin = at;
    entry.end = at += static_cast<uint64_t>(entry.shape.numel() * item_size(entry.dtype));
  }
  Header header = {std::move(entries), metadata};
  header.metadata.emplace("format", "pt");
  Header readable = header;
  take_codecs(readable, "save_safetensors");
  std::string text = header_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begin at a multiple of 8
  check(text.size() <= kMaxHeaderBytes, "save_safetensors: the header for ", header.entries.size(),
        " tensors has ", text.size(), " bytes, the limit is ", kMaxHeaderBytes);
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xff);
  }
  return {std::move(header.entries), std::move(order), length + text};
}

void write_array(OutputFile& file, const Entry& entry, const Array& array) {
  check(array.defined(), "save_safetensors: tensor '", cut_text(entry.name), "' is undefined");
  check(array.device() != kMeta, "save_safetensors: tensor '", entry.name,
        "' is on meta and has no values");
  check(array.shape() == entry.shape && array.dtype() == entry.dtype, "save_safetensors: tensor '",
        entry.name, "' is ", array.dtype(), " ", array.shape(), ", announced was ", entry.dtype,
        " ", entry.shape);
  if (array.numel() == 0) return;
  const Array values = array.to(kCpu).contiguous();
  file.write(std::span(values.bytes(), static_cast<size_t>(values.nbytes())));
}

}  // namespace safetensors

struct SafetensorsWriter::File {
  File(const std::string& path, safetensors::Layout&& of) : layout(std::move(of)), output(path) {}
  safetensors::Layout layout;
  OutputFile output;
  size_t next = 0;
};

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<Entry> entries,
                                     const Metadata& metadata)
    : file_(std::make_unique<File>(path, safetensors::layout_of(std::move(entries), metadata))) {
  file_->output.write(file_->layout.head);
}

SafetensorsWriter::~SafetensorsWriter() = default;

// Wider elements first: every array is then aligned to its own element, and the format allows no
// padding between them.
std::vector<size_t> SafetensorsWriter::order_of(const std::vector<Entry>& entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return item_size(entries[a].dtype) > item_size(entries[b].dtype);
  });
  return order;
}

void SafetensorsWriter::write(const Array& array) {
  const safetensors::Layout& layout = file_->layout;
  check(file_->next < layout.entries.size(), "save_safetensors: all ", layout.entries.size(),
        " tensors have been written");
  safetensors::write_array(file_->output, layout.entries[layout.order[file_->next++]], array);
}

void SafetensorsWriter::commit() {
  const size_t entries = file_->layout.entries.size();
  check(file_->next == entries, "save_safetensors: only ", file_->next, " of ", entries,
        " tensors have been written");
  file_->output.commit();
}

void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata) {
  std::vector<Entry> entries;
  for (const NamedArray& one : arrays) {
    check(one.array.defined(), "save_safetensors: tensor '", cut_text(one.name), "' is undefined");
    check(one.array.device() != kMeta, "save_safetensors: tensor '", one.name,
          "' is on meta and has no values");
    entries.push_back({one.name, one.array.dtype(), one.array.shape(), 0, 0});
  }
  SafetensorsWriter writer(path, entries, metadata);
  for (const size_t i : SafetensorsWriter::order_of(entries)) writer.write(arrays[i].array);
  writer.commit();
}

NamedArrays load_safetensors(const std::string& path) {
  return with_file_errors("load_safetensors", path, [&] {
    const InputFile file(path);
    return load(Source(file));
  });
}

NamedArrays parse_safetensors(std::span<const std::byte> bytes) { return load(Source(bytes)); }

struct SafetensorsReader::File {
  explicit File(const std::string& path) : input(path), opened(open(Source(input))) {
    for (const Entry& entry : opened.header.entries) by_name.emplace(entry.name, &entry);
  }
  const Entry* find(std::string_view name) const {
    const auto found = by_name.find(name);
    return found != by_name.end() ? found->second : nullptr;
  }
  InputFile input;
  Opened opened;
  std::unordered_map<std::string_view, const Entry*> by_name;  // looked up only, never walked
};

SafetensorsReader::SafetensorsReader(const std::string& path)
    : file_(with_file_errors("load_safetensors", path,
                             [&] { return std::make_unique<File>(path); })) {}
SafetensorsReader::~SafetensorsReader() = default;
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;

const SafetensorsReader::File& SafetensorsReader::file() const {
  check(file_ != nullptr,
        "safetensors: the reader was moved from; use the one that it was moved into");
  return *file_;
}

const std::vector<Entry>& SafetensorsReader::entries() const {
  return file().opened.header.entries;
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

const Metadata& SafetensorsReader::metadata() const { return file().opened.header.metadata; }

const std::map<std::string, std::string, std::less<>>& SafetensorsReader::unreadable() const {
  return file().opened.header.unreadable;
}
bool SafetensorsReader::contains(std::string_view name) const {
  return unreadable().contains(name) || file().find(name) != nullptr;
}

Array SafetensorsReader::load(std::string_view name) const {
  if (const Entry* const entry = file().find(name)) {
    return read_array(Source(file().input), file().opened, *entry);
  }
  const auto other = unreadable().find(name);
  if (other != unreadable().end()) {
    fail_unreadable(Source(file().input), other->first, other->second);
  }
  fail_missing(name, entries());
}

void SafetensorsReader::read(const Entry& entry, int64_t first, const Array& target) const {
  const File& from = file();
  const int64_t elements = entry.shape.numel();
  check(target.dtype() == entry.dtype && target.is_contiguous() && first >= 0 &&
            first <= elements && target.numel() <= elements - first,
        "safetensors: cannot read elements ", first, " ... of '", entry.name, "' (", entry.dtype,
        " ", entry.shape, ") into ", target.dtype(), " ", target.shape());
  if (target.numel() == 0) return;
  const bool here = target.device().type == DeviceType::cpu;
  const Array read = here ? target : Array::empty(target.shape(), target.dtype());
  read_elements(Source(from.input), from.opened, entry, first, read);
  if (!here) backend(target.device()).run(call::Copy{read, target});
}

}  // namespace hero::core

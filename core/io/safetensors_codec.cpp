// Arrays that a safetensors file stores compressed by a codec.
#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <hero/core/device/backend.h>
#include <hero/core/error.h>
#include <hero/core/io/encoding.h>
#include <hero/core/io/name_list.h>
#include <hero/core/io/safetensors_file.h>
#include <hero/core/io/safetensors_header.h>
#include <hero/core/kernels/codecs.h>

namespace hero::core {

std::optional<Codec> Encoding::of(std::string_view name) const {
  const auto whole = named.find(name);
  if (whole != named.end()) return whole->second;
  const size_t point = name.rfind('.');
  const auto last =
      point == std::string_view::npos ? named.end() : named.find(name.substr(point + 1));
  return last != named.end() ? std::optional(last->second) : all;
}

std::string Encoding::text() const {
  std::string text = all ? name(*all) : "";
  for (const auto& [array, codec] : named) {
    text += (text.empty() ? "" : ", ") + array + " in " + name(codec);
  }
  return text;
}

void Encoding::check_codecs(const char* what) const {
  bool keeps_values = all != Codec::sign1;
  for (const auto& [array, codec] : named) keeps_values = keeps_values && codec != Codec::sign1;
  check(keeps_values, what, ": sign1 keeps signs alone; choose int8, int4, fp8_e4m3 or fp8_e5m2");
}

namespace safetensors {
namespace {

constexpr std::string_view kCodecKey = "codec:";
constexpr Codec kValueCodecs[] = {Codec::int8, Codec::int4, Codec::fp8_e4m3, Codec::fp8_e5m2};

// "int8 F32 13,7"
std::string codec_text(Codec codec, const Entry& array) {
  std::string text = std::string(name(codec)) + " " + std::string(name_of(array.dtype));
  for (int i = 0; i < array.shape.size(); ++i) {
    text += (i == 0 ? " " : ",") + std::to_string(array.shape[i]);
  }
  return text;
}

// The sizes in "13,7"; nothing where the text is something else or there are too many elements.
std::optional<Shape> sizes_in(std::string_view text) {
  Shape shape;
  int64_t elements = 1;
  while (true) {
    int64_t size = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), size);
    const bool fits = failed == std::errc() && size > 0 && shape.size() < kMaxDims &&
                      !__builtin_mul_overflow(elements, size, &elements) &&
                      elements <= (int64_t{1} << 60);
    if (!fits) return {};
    shape.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return shape;
    if (text.front() != ',') return {};
    text.remove_prefix(1);
  }
}

// What is before the first space, which is taken off with it.
std::string_view word_of(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

// Makes an entry of bytes that of the array in the text; the codec, or nothing where they do not
// fit.
std::optional<Codec> take_array(Entry& entry, std::string_view text) {
  const std::string_view word = word_of(text);
  const auto* const codec = std::find_if(std::begin(kValueCodecs), std::end(kValueCodecs),
                                         [&](Codec each) { return word == name(each); });
  const std::optional<DType> dtype = dtype_of(word_of(text));
  const std::optional<Shape> shape = sizes_in(text);
  const bool known = codec != std::end(kValueCodecs) && dtype && shape;
  if (!known || !takes_codec(*dtype, *shape, *codec) || entry.dtype != kUInt8 ||
      entry.shape != Shape{encoded_bytes(*codec, shape->numel())}) {
    return {};
  }
  entry.dtype = *dtype;
  entry.shape = *shape;
  return *codec;
}

}  // namespace

bool takes_codec(DType dtype, const Shape& shape, Codec codec) {
  const int64_t elements = shape.numel();
  return (dtype == kFloat32 || is_half(dtype)) &&
         encoded_bytes(codec, elements) < elements * item_size(dtype);
}

void take_codecs(Header& header, const std::string& what) {
  Metadata others;
  std::unordered_map<std::string_view, Entry*> entries;  // a file may have very many of both
  for (Entry& entry : header.entries) entries.emplace(entry.name, &entry);
  for (auto& [key, text] : header.metadata) {
    if (!key.starts_with(kCodecKey)) {
      others.emplace(key, std::move(text));
      continue;
    }
    const std::string of = key.substr(kCodecKey.size());
    const auto found = entries.find(of);
    check(found != entries.end(), what, ": metadata say that ", start_of(of),
          " is encoded, and there is no such tensor");
    Entry* const entry = found->second;
    const std::optional<Codec> codec = take_array(*entry, text);
    check(codec.has_value(), what, ": tensor ", start_of(of), ", ", name_of(entry->dtype), " ",
          entry->shape, ", is no encoded array of ", start_of(text));
    header.codecs[of] = *codec;
  }
  header.metadata = std::move(others);
}

void read_encoded(Codec codec, int64_t first, const Array& out,
                  const std::function<void(uint64_t begin, std::span<std::byte> bytes)>& read) {
  constexpr int64_t kBlock = codecs::kBlock;
  const int64_t begin = first / kBlock * kBlock, last = first + out.numel();
  const int64_t row = (last - begin + kBlock - 1) / kBlock * kBlock;
  const Array bytes = Array::empty({1, encoded_bytes(codec, row)}, kUInt8);
  read(static_cast<uint64_t>(encoded_bytes(codec, begin)),
       std::span(bytes.bytes(), static_cast<size_t>(bytes.nbytes())));
  const Array flat = out.reshape({out.numel()});
  if (first == begin) return decode(codec, bytes, row, flat);
  const Array values = Array::empty({last - begin}, out.dtype());
  decode(codec, bytes, row, values);
  cpu_backend().run(call::Copy{values.slice(0, first - begin, values.numel()), flat});
}

}  // namespace safetensors

void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata, const Encoding& encoding) {
  save_safetensors(path, arrays, metadata, encoding, {});
}

void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata, const Encoding& encoding, OutputOptions options) {
  encoding.check_codecs("save_safetensors");
  Metadata all = metadata;
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<std::optional<Codec>> codecs;
  for (const NamedArray& one : arrays) {
    check(one.array.defined(), "save_safetensors: tensor '", cut_text(one.name), "' is undefined");
    SafetensorsWriter::Entry entry = {one.name, one.array.dtype(), one.array.shape(), 0, 0};
    std::optional<Codec> codec = encoding.of(one.name);
    if (codec && !safetensors::takes_codec(entry.dtype, entry.shape, *codec)) codec.reset();
    if (codec) {
      all[std::string(safetensors::kCodecKey) + one.name] = safetensors::codec_text(*codec, entry);
      entry.shape = {encoded_bytes(*codec, one.array.numel())};
      entry.dtype = kUInt8;
    }
    entries.push_back(std::move(entry));
    codecs.push_back(codec);
  }
  const safetensors::Layout layout = safetensors::layout_of(std::move(entries), all);
  OutputFile file(path, std::move(options));
  file.write(layout.head);
  for (const size_t i : layout.order) {
    const Array& array = arrays[i].array;
    if (!codecs[i] || array.device() == kMeta) {
      safetensors::write_array(file, layout.entries[i], array);
      continue;
    }
    const int64_t elements = array.numel();
    const Array bytes = Array::empty({1, encoded_bytes(*codecs[i], elements)}, kUInt8);
    encode(*codecs[i], array.to(kCpu).contiguous().reshape({elements}), elements, bytes);
    safetensors::write_array(file, layout.entries[i], bytes.reshape({bytes.numel()}));
  }
  file.commit();
}

}  // namespace hero::core

#pragma once
// GGUF files made piece by piece, valid ones and others.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace hero_test {

/// The bytes of a number, little-endian.
template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Builds the bytes of a file.
class GGUFBuilder {
 public:
  /// Numbers of types of values in the metadata.
  enum ValueType : uint32_t {
    kU8,
    kI8,
    kU16,
    kI16,
    kU32,
    kI32,
    kF32,
    kBool,
    kText,
    kArray,
    kU64,
    kI64,
    kF64
  };

  static std::string text_bytes(std::string_view text) {
    return little_endian<uint64_t>(text.size()) + std::string(text);
  }
  static std::string array_bytes(uint32_t type, uint64_t count, const std::string& elements) {
    return little_endian(type) + little_endian(count) + elements;
  }

  /// A key whose value has these bytes.
  GGUFBuilder& key(std::string_view name, uint32_t type, const std::string& bytes) {
    metadata_ += text_bytes(name) + little_endian(type) + bytes;
    ++keys_;
    return *this;
  }
  GGUFBuilder& text(std::string_view name, std::string_view value) {
    return key(name, kText, text_bytes(value));
  }
  GGUFBuilder& u32(std::string_view name, uint32_t value) {
    return key(name, kU32, little_endian(value));
  }
  GGUFBuilder& f32(std::string_view name, float value) {
    return key(name, kF32, little_endian(value));
  }
  GGUFBuilder& flag(std::string_view name, bool value) {
    return key(name, kBool, std::string(1, value ? '\1' : '\0'));
  }
  GGUFBuilder& texts(std::string_view name, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& one : values) all += text_bytes(one);
    return key(name, kArray, array_bytes(kText, values.size(), all));
  }
  GGUFBuilder& i32s(std::string_view name, const std::vector<int32_t>& values) {
    std::string all;
    for (const int32_t one : values) all += little_endian(one);
    return key(name, kArray, array_bytes(kI32, values.size(), all));
  }
  /// A tensor, its sizes in the order of the file, the fastest first.
  GGUFBuilder& tensor(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type,
                      const std::string& bytes) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    entry(name, sizes, type, data_.size());
    data_ += bytes;
    return *this;
  }
  /// The line of a tensor alone.
  GGUFBuilder& entry(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type,
                     uint64_t offset) {
    list_ += text_bytes(name) + little_endian(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t size : sizes) list_ += little_endian(size);
    list_ += little_endian(type) + little_endian(offset);
    ++tensors_;
    return *this;
  }
  /// Of the data; the caller gives the key general.alignment, too.
  GGUFBuilder& alignment(uint64_t bytes) {
    alignment_ = bytes;
    return *this;
  }

  std::string bytes(uint32_t version = 3) const { return with_counts(version, tensors_, keys_); }
  /// The same with other numbers of tensors and keys.
  std::string with_counts(uint32_t version, uint64_t tensors, uint64_t keys) const {
    std::string all = "GGUF" + little_endian(version) + little_endian(tensors) +
                      little_endian(keys) + metadata_ + list_;
    all.resize((all.size() + alignment_ - 1) / alignment_ * alignment_);
    return all + data_;
  }

 private:
  std::string metadata_, list_, data_;
  uint64_t keys_ = 0, tensors_ = 0, alignment_ = 32;
};

}  // namespace hero_test

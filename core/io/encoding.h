#pragma once
// Encoding: the arrays that a safetensors file stores compressed by a codec.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <hero/core/functions/codec.h>
#include <hero/core/safetensors.h>

namespace hero::core {

/// The codecs (int8, int4, fp8_e4m3 or fp8_e5m2) in which a file stores some of its arrays, with a
/// loss of precision. Only arrays of float32 or half precision that take fewer bytes so are
/// encoded. Reading needs no Encoding: arrays are read in their dtype and shape, with the values of
/// decode() of encode() of one row that has all elements.
struct Encoding {
  std::optional<Codec> all = {};  ///< the codec of all arrays that are not in `named`
  /// The codecs of arrays by name, or by the last part of the name, such as "exp_avg_sq" for
  /// "state.0.exp_avg_sq".
  std::map<std::string, Codec, std::less<>> named = {};

  /// The codec of the array of this name, if it has one.
  std::optional<Codec> of(std::string_view name) const;
  /// "" for none; "int8, exp_avg_sq in fp8_e5m2".
  std::string text() const;
  /// Throws an Error that begins with `what` if a codec is sign1, which keeps only signs.
  void check_codecs(const char* what) const;
};

/// save_safetensors() with some arrays encoded. The file has the bytes of such an array under its
/// name, uint8 of one dimension, and an entry "codec:<name>": "int8 F32 13,7" in its metadata.
/// Hero's readers decode the bytes and remove this entry; other readers see the bytes.
void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata, const Encoding& encoding);

}  // namespace hero::core

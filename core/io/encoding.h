#pragma once
// Encoding: which arrays a file keeps in the bytes of a codec.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <hero/core/functions/codec.h>
#include <hero/core/safetensors.h>

namespace hero::core {

/// Which arrays a file keeps in int8, int4, fp8_e4m3 or fp8_e5m2, and loses what these bytes leave
/// out. Only arrays of float32 or 16 bits that then take fewer bytes are encoded. Reading
/// needs no Encoding: arrays come back in their dtype and shape, as decode() of encode() of one row
/// with all elements.
struct Encoding {
  std::optional<Codec> all = {};  ///< of every array
  /// Before that: of arrays of this name, or whose name ends with a point and this, as
  /// "exp_avg_sq" in "state.0.exp_avg_sq".
  std::map<std::string, Codec, std::less<>> named = {};

  /// The codec of an array of that name, if it has one.
  std::optional<Codec> of(std::string_view name) const;
  /// "" for none; "int8, exp_avg_sq in fp8_e5m2".
  std::string text() const;
  /// Throws an Error that begins with `what` if a codec is sign1, which keeps only signs.
  void check_codecs(const char* what) const;
};

/// save_safetensors() with some arrays encoded. Of these the file has the bytes under the array's
/// name, uint8 of one dimension, and its metadata say "codec:<name>": "int8 F32 13,7". Readers here
/// take that out; others see the bytes.
void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata, const Encoding& encoding);

}  // namespace hero::core

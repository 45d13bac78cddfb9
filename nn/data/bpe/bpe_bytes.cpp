#include <unordered_map>

#include <hero/core/threads/at_fork.h>
#include <hero/nn/data/bpe/bpe_bytes.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

// [note: bytes in JSON]
// JSON holds text, tokens are bytes. GPT-2 writes each byte as a character that prints: itself
// where it prints, else the next of U+0100, U+0101, ...
struct ByteText {
  std::string of_byte[256];
  std::unordered_map<uint32_t, char> byte_of;

  ByteText() {
    uint32_t next = 0x100;
    for (const uint8_t byte : bpe_byte_order()) {
      const bool prints = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      const uint32_t code = prints ? byte : next++;
      std::string& text = of_byte[byte];
      if (code < 0x80) {
        text.push_back(static_cast<char>(code));
      } else {
        text.push_back(static_cast<char>(0xc0 | code >> 6));
        text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
      }
      byte_of[code] = static_cast<char>(byte);
    }
  }
};

const ByteText& byte_text() {
  static const ByteText table;
  return table;
}
[[maybe_unused]] const bool kByteTextAtFork =
    core::at_fork([] { byte_text(); });  // see [note: forks]

}  // namespace

std::string bpe_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += byte_text().of_byte[static_cast<unsigned char>(byte)];
  return text;
}

bool bpe_bytes(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < text.size();) {
    const CodePoint one = code_point_at(text, at);
    const auto found = byte_text().byte_of.find(one.value);
    if (found == byte_text().byte_of.end()) return false;
    bytes += found->second;
    at += one.length;
  }
  return true;
}

}  // namespace hero::nn::data

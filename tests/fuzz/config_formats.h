#pragma once
// config.json of transformers, fed as formats.h says.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "formats.h"

#include <hero/core/io/file.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>

namespace hero_fuzz {

/// A folder that goes with the process.
class ConfigFolder {
 public:
  ConfigFolder() {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~ConfigFolder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  ConfigFolder(const ConfigFolder&) = delete;
  ConfigFolder& operator=(const ConfigFolder&) = delete;
  const std::string& path() const { return path_; }
  void write(std::string_view text) const {
    std::ofstream(path_ + "/config.json", std::ios::binary) << text;
  }
  std::string read() const { return hero::read_file_text(path_ + "/config.json"); }

 private:
  std::string path_ = "/tmp/hero_config_XXXXXX";
};

/// What is read can be written, if the models have a word for it, and is then read as it was.
template <class Config>
bool feed_config_of(const ConfigFolder& folder, std::string_view text) {
  folder.write(text);
  try {
    const Config config = Config::from_pretrained(folder.path());
    try {
      config.save_pretrained(folder.path());
    } catch (const hero::Error&) {
      return true;
    }
    const std::string once = folder.read();
    Config::from_pretrained(folder.path()).save_pretrained(folder.path());
    if (folder.read() != once) __builtin_trap();
    return true;
  } catch (const hero::Error&) {
    return false;
  }
}

inline bool feed_config(std::span<const std::byte> bytes) {
  static const ConfigFolder folder;
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const bool gpt = feed_config_of<hero::nn::GPTConfig>(folder, text);
  return feed_config_of<hero::nn::LlamaConfig>(folder, text) || gpt;
}

}  // namespace hero_fuzz

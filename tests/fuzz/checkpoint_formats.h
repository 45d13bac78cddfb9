#pragma once
// Checkpoints whose state file is made of any bytes, and signed as if they were right.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "data_formats.h"

#include <hero/core/array.h>
#include <hero/dist/checkpoint.h>
#include <hero/dist/checkpoint/manifest.h>
#include <hero/nn/linear.h>
#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/checkpoint_folder.h>
#include <hero/nn/training/file_digest.h>

namespace hero_fuzz {

/// A folder in memory where there is one, made once a process and removed at its end.
inline const std::string& scratch() {
  static const std::string* const folder = [] {  // leaked: the function at exit needs it
    auto* const name =
        new std::string(std::filesystem::exists("/dev/shm") ? "/dev/shm/hero_fuzz_XXXXXX"
                                                            : "/tmp/hero_fuzz_XXXXXX");
    if (::mkdtemp(name->data()) == nullptr) std::abort();
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(scratch(), ignored);
    });
    return name;
  }();
  return *folder;
}

inline void put_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A run whose newest checkpoint has these bytes as its state file. It resumes there, or nowhere,
/// and then nothing has changed.
inline bool feed_checkpoint(std::span<const std::byte> bytes) {
  using hero::nn::Checkpointer;
  static const std::string run = [] {
    const std::string folder = scratch() + "/run";
    int64_t number = 1;
    Checkpointer first(folder);
    first.track("number", number);
    first.track(
        "values",
        [] {
          return Checkpointer::StateDict{{"v", hero::core::Array::full({3}, 1.0)}};
        },
        [](const Checkpointer::StateDict&) {});
    first.save(1);
    return folder;
  }();
  const std::string folder = run + "/checkpoints/step-00000001";
  put_file(folder + "/trainer_state.json", text_of(bytes));
  const auto digest = hero::nn::digest_file(folder + "/trainer_state.json");
  put_file(folder + "/COMPLETE", "trainer_state.json " + std::to_string(digest.bytes) +
                                     " bytes crc32c " + hero::nn::checkpoints::hex(digest.crc32c) +
                                     "\n");
  int64_t number = -77;
  bool loaded = false;
  Checkpointer checkpoint(run);
  checkpoint.track("number", number);
  checkpoint.track(
      "values",
      [] {
        return Checkpointer::StateDict{{"v", hero::core::Array::full({3}, 1.0)}};
      },
      [&](const Checkpointer::StateDict&) { loaded = true; });
  try {
    if (checkpoint.resume() != 1 || !loaded) __builtin_trap();
    return true;
  } catch (const hero::Error&) {
    if (number != -77) __builtin_trap();
    return false;
  }
}

/// The manifest of several ranks; what is read is written and read again as it was.
inline bool feed_manifest(std::span<const std::byte> bytes) {
  try {
    const auto manifest = hero::dist::parse_manifest(std::string(text_of(bytes)), "bytes");
    const std::string text = hero::dist::to_text(manifest);
    if (hero::dist::to_text(hero::dist::parse_manifest(text, "bytes")) != text) __builtin_trap();
    return true;
  } catch (const hero::Error&) {
    return false;
  }
}

/// The index of a model in several files, beside the one file that it may name.
inline bool feed_index(std::span<const std::byte> bytes) {
  static const std::string folder = [] {
    const std::string made = scratch() + "/model";
    std::filesystem::create_directories(made);
    const hero::nn::Linear linear(2, 2);
    linear.save(made + "/model-00001-of-00001.safetensors");
    return made;
  }();
  static hero::nn::Linear model(2, 2);
  put_file(folder + "/model.safetensors.index.json", text_of(bytes));
  try {
    hero::dist::load_full(folder, hero::dist::Communicator(), model);
    return true;
  } catch (const hero::Error&) {
    return false;
  }
}

}  // namespace hero_fuzz

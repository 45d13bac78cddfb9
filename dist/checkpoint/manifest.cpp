#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <hero/core/error.h>
#include <hero/core/functions/codec.h>
#include <hero/core/io/file.h>
#include <hero/core/json/json.h>
#include <hero/dist/checkpoint/manifest.h>
#include <hero/nn/training/checkpoint_state.h>

namespace hero::dist {

using core::JSON;

namespace {

constexpr const char* kFormat = "hero sharded checkpoint ";
constexpr int kLastFormat = 2;

std::string format_text(int format) { return kFormat + std::to_string(format); }

int format_of(const JSON& text) {
  int format = 1;
  while (format <= kLastFormat && text != format_text(format)) ++format;
  check(format <= kLastFormat, "the format is not '", format_text(1), "' to '",
        format_text(kLastFormat), "'");
  return format;
}

// As text, since JSON has no infinities; 17 digits give every double back.
std::string number_text(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

double number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  check(end != text.c_str() && *end == '\0', "not a number: ", text);
  return value;
}

// {"fc1.weight": "float32 21@45 of 13,7"}: 21 elements and their place.
JSON index_text(const FileIndex& index) {
  JSON text = JSON::object();
  for (const auto& [name, part] : index) {
    text[name] = std::string(hero::name(part.dtype)) + " " + part_text(part.range);
  }
  return text;
}

SavedPart saved_part(const std::string& name, const std::string& text) {
  const size_t blank = text.find(' ');
  for (int i = 0; i < kDTypeCount && blank != std::string::npos; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (text.substr(0, blank) != hero::name(dtype)) continue;
    const std::optional<ShardRange> range = parse_part(std::string_view(text).substr(blank + 1));
    if (range) return {dtype, *range};
  }
  fail("the part of '", name.substr(0, 100), "' is not '", text.substr(0, 200), "'");
}

// The fewest bytes that a file needs for elements: those of the codec that needs fewest.
int64_t least_bytes(const SavedPart& saved) {
  const int64_t plain = saved.range.count * item_size(saved.dtype);
  const bool may_be_encoded = saved.dtype == kFloat32 || is_half(saved.dtype);
  return may_be_encoded ? std::min(plain, core::encoded_bytes(core::Codec::int4, saved.range.count))
                        : plain;
}

FileIndex index_of(const JSON& text, int64_t bytes) {
  check(text.is_object(), "the parts of a file are no object");
  FileIndex index;
  for (const auto& [name, part] : text.members()) {
    const SavedPart& saved = index[name] = saved_part(name, part.text());
    check(saved.range.count <= 2 * bytes && least_bytes(saved) <= bytes, "a file of ", bytes,
          " bytes cannot hold ", saved.range.count, " ", saved.dtype, " of '", name.substr(0, 100),
          "'");
  }
  return index;
}

// It becomes a path: a file of the folder, and none elsewhere.
void check_file_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  check(!name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), is_plain),
        "a file of a checkpoint has a name of letters, digits, '-', '_' and '.', not '",
        name.substr(0, 100), "'");
}

// What is tracked by value has a value.
void check_complete(const Manifest& manifest) {
  for (const auto& [name, kind] : manifest.tracked) {
    const bool there = kind == "integer"     ? manifest.integers.count(name) > 0
                       : kind == "number"    ? manifest.numbers.count(name) > 0
                       : kind == "generator" ? manifest.generators.count(name) > 0
                                             : true;
    check(there, kind, " ", name, " has no value");
  }
  check(manifest.generators.count(nn::checkpoints::kDefaultGenerator) > 0,
        "generator default has no state");
}

}  // namespace

std::vector<PartFile> Manifest::files_of(const std::string& object,
                                         const std::string& folder) const {
  std::vector<PartFile> found;
  for (const auto& [name, file] : files) {
    if (file.object == object) found.push_back({folder + "/" + name, file.index});
  }
  return found;
}

void Manifest::add(const Manifest& of_rank) {
  format = std::max(format, of_rank.format);
  files.insert(of_rank.files.begin(), of_rank.files.end());
  for (const auto& [name, states] : of_rank.generators) {
    generators[name].insert(generators[name].end(), states.begin(), states.end());
  }
}

std::string to_text(const Manifest& manifest) {
  JSON text = {{"format", format_text(manifest.format)},
               {"step", manifest.step},
               {"ranks", manifest.ranks},
               {"tracked", manifest.tracked},
               {"files", JSON::object()},
               {"integers", manifest.integers},
               {"numbers", JSON::object()},
               {"generators", JSON::object()}};
  for (const auto& [name, file] : manifest.files) {
    text["files"][name] = {{"bytes", file.hash.bytes},
                           {"sha256", file.hash.sha256},
                           {"object", file.object},
                           {"rank", file.rank}};
    if (file.index) text["files"][name]["parts"] = index_text(*file.index);
  }
  for (const auto& [name, value] : manifest.numbers) text["numbers"][name] = number_text(value);
  for (const auto& [name, states] : manifest.generators) {
    JSON& list = text["generators"][name] = JSON::array();
    for (const Generator::State& state : states) {
      list.push_back({{"seed", state.seed}, {"offset", state.offset}});
    }
  }
  return core::json_dump(text, "checkpoint", 2) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  Manifest manifest;
  try {
    const JSON all = core::parse_json(text, "checkpoint", path);
    check(all.is_object(), "it is no object");
    manifest.format = format_of(all["format"]);
    manifest.step = core::json_integer<int64_t>(all["step"], "step");
    manifest.ranks = core::json_integer<int>(all["ranks"], "ranks");
    check(manifest.ranks > 0, "ranks is ", manifest.ranks);
    for (const auto& [name, kind] : core::json_object(all, "tracked")) {
      manifest.tracked[name] = kind.text();
    }
    for (const auto& [name, file] : core::json_object(all, "files")) {
      check_file_name(name);
      using Bytes = decltype(FileHash::bytes);
      manifest.files[name] = {
          {core::json_integer<Bytes>(file["bytes"], "bytes"), file["sha256"].text()},
          file["object"].text(),
          core::json_integer<int>(file["rank"], "rank")};
      if (file.contains("parts"))
        manifest.files[name].index =
            index_of(file["parts"], static_cast<int64_t>(manifest.files[name].hash.bytes));
    }
    for (const auto& [name, value] : core::json_object(all, "integers")) {
      manifest.integers[name] = core::json_integer<int64_t>(value, name);
    }
    for (const auto& [name, value] : core::json_object(all, "numbers")) {
      manifest.numbers[name] = number_of(value.text());
    }
    for (const auto& [name, states] : core::json_object(all, "generators")) {
      for (const JSON& state : states) {
        manifest.generators[name].push_back(
            {core::json_integer<uint64_t>(state["seed"], "seed"),
             core::json_integer<uint64_t>(state["offset"], "offset")});
      }
      check(!manifest.generators[name].empty(), "generator ", name, " has no state");
    }
    check_complete(manifest);
  } catch (const std::exception& error) {
    fail("checkpoint: cannot read ", path, ": ", error.what());
  }
  return manifest;
}

std::string file_damage(const std::string& folder, const std::string& name,
                        const Manifest::File& file) {
  const std::string path = folder + "/" + name;
  const std::string from = ", which rank " + std::to_string(file.rank) + " wrote, ";
  FileHash found;
  try {
    if (!path_exists(path)) return path + from + "is missing";
    found = hash_file(path);
  } catch (const std::exception& error) {
    return path + from + "cannot be read: " + error.what();
  }
  if (found == file.hash) return "";
  return path + from + "is damaged: " + std::to_string(found.bytes) + " bytes, sha256 " +
         found.sha256 + "; written were " + std::to_string(file.hash.bytes) + " bytes, sha256 " +
         file.hash.sha256;
}

Generator::State state_of(const Manifest::States& saved, int rank, int ranks) {
  check(!saved.empty(), "checkpoint: a generator without states");
  const bool same = std::all_of(saved.begin(), saved.end(),
                                [&](const Generator::State& s) { return s == saved.front(); });
  if (same && ranks != static_cast<int>(saved.size())) return saved.front();
  if (static_cast<size_t>(rank) < saved.size()) return saved[static_cast<size_t>(rank)];
  return {saved.front().seed + static_cast<uint64_t>(rank), saved.front().offset};
}

}  // namespace hero::dist

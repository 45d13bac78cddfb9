#include <algorithm>
#include <charconv>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/part_files.h>

namespace hero::dist {
namespace {

constexpr const char* kPart = "part:";

std::string place_text(const Place& place) {
  std::string text = std::to_string(place.first) + " of ";
  for (int i = 0; i < place.whole.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(place.whole[i]);
  }
  return text;
}

// Where an array of a file belongs.
Place place_of(const core::SafetensorsReader& file, const core::SafetensorsReader::Entry& entry,
               const std::string& path) {
  const auto found = file.metadata().find(kPart + entry.name);
  if (found == file.metadata().end()) return {entry.shape, 0, entry.shape.numel()};
  const std::string& text = found->second;
  const char* at = text.data();
  const char* const end = at + text.size();
  Place place = {{}, 0, entry.shape.numel()};
  const auto number = [&](int64_t& value) {
    const auto [stop, error] = std::from_chars(at, end, value);
    at = stop;
    return error == std::errc() && value >= 0;
  };
  constexpr std::string_view kOf = " of ";
  bool good =
      number(place.first) && std::string_view(at, static_cast<size_t>(end - at)).starts_with(kOf);
  if (good) at += kOf.size();
  int64_t padded = 1;  // sizes of 0 count as 1, so that no product overflows
  for (bool more = true; good && more; more = at != end && *at++ == ',') {
    int64_t size = 0;
    good = place.whole.size() < kMaxDims && number(size) &&
           !__builtin_mul_overflow(padded, std::max<int64_t>(size, 1), &padded);
    if (good) place.whole.push_back(size);
  }
  check(good && at == end && place.first <= place.whole.numel() - place.count, "checkpoint: ", path,
        ": '", entry.name, "' of ", place.count, " elements has no place in '", text, "'");
  return place;
}

}  // namespace

void save_parts(const std::string& path, const std::vector<NamedPart>& parts) {
  std::vector<core::NamedArray> arrays;
  core::Metadata metadata;
  for (const NamedPart& part : parts) {
    if (part.place.is_whole()) {
      arrays.push_back({part.name, part.array.reshape(part.place.whole)});
    } else {
      arrays.push_back({part.name, part.array.reshape({part.array.numel()})});
      metadata[kPart + part.name] = place_text(part.place);
    }
  }
  core::save_safetensors(path, arrays, metadata);
}

PartFiles::PartFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {
  std::map<std::string, std::vector<Place>> pieces;
  for (const std::string& path : paths_) {
    const core::SafetensorsReader file(path);
    for (const auto& entry : file.entries()) {
      const Place place = place_of(file, entry, path);
      const auto [found, fresh] = values_.emplace(entry.name, Value{entry.dtype, place.whole});
      check(fresh || (found->second.dtype == entry.dtype && found->second.whole == place.whole),
            "checkpoint: ", path, ": '", entry.name, "' is part of ", entry.dtype, " ", place.whole,
            ", in another file of ", found->second.dtype, " ", found->second.whole);
      pieces[entry.name].push_back(place);
    }
  }
  for (auto& [name, places] : pieces) {
    std::sort(places.begin(), places.end(),
              [](const Place& a, const Place& b) { return a.first < b.first; });
    int64_t at = 0;
    for (const Place& place : places) {
      check(place.first == at, "checkpoint: the parts of '", name, "' ",
            place.first < at ? "overlap" : "leave a hole", " at element ",
            std::min(at, place.first), ", in the files beside ", paths_.front());
      at += place.count;
    }
    check(at == values_.at(name).whole.numel(), "checkpoint: the parts of '", name,
          "' end at element ", at, " of ", values_.at(name).whole.numel(), ", in the files beside ",
          paths_.front());
  }
}

void PartFiles::read(std::span<const Wanted> wanted) const {
  std::map<std::string, std::vector<const Wanted*>> by_name;
  for (const Wanted& one : wanted) by_name[one.name].push_back(&one);
  for (const std::string& path : paths_) {
    const core::SafetensorsReader file(path);
    for (const auto& entry : file.entries()) {
      const auto found = by_name.find(entry.name);
      if (found == by_name.end()) continue;
      const Place place = place_of(file, entry, path);
      for (const Wanted* one : found->second) {
        const int64_t begin = std::max(one->first, place.first);
        const int64_t end = std::min(one->first + one->into.numel(), place.first + place.count);
        if (begin >= end) continue;
        file.read(
            entry, begin - place.first,
            one->into.reshape({one->into.numel()}).slice(0, begin - one->first, end - one->first));
      }
    }
  }
}

}  // namespace hero::dist

#include <algorithm>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/part_files.h>

namespace hero::dist {
namespace {

constexpr const char* kPart = "part:";

// The elements of the whole value that an array of a file holds.
ShardRange range_of(const core::SafetensorsReader& file,
                    const core::SafetensorsReader::Entry& entry, const std::string& path) {
  const auto found = file.metadata().find(kPart + entry.name);
  if (found == file.metadata().end()) return {entry.shape, {}, 0, entry.shape.numel()};
  const int64_t count = entry.shape.numel();
  const std::optional<ShardRange> range = parse_place(found->second, count);
  check(range.has_value(), "checkpoint: ", path, ": '", entry.name, "' of ", count,
        " elements has no place in '", found->second, "'");
  return *range;
}

// What is wanted of one value, its runs in the order of the value.
struct Target {
  Array into;
  Shape whole;
  std::vector<layout::Run> runs = {};
  int64_t read = 0;  // elements

  explicit Target(const Wanted& wanted)
      : into(wanted.into.reshape({wanted.into.numel()})), whole(wanted.range.whole) {
    layout::Runs all = wanted.range.runs();
    for (layout::Run run; all.next(run);) runs.push_back(run);
    std::sort(runs.begin(), runs.end(),
              [](const auto& a, const auto& b) { return a.whole < b.whole; });
  }
};

// Reads what a file's array and a target have in common, and returns how many elements that is. The
// target's runs are disjoint, so their ends ascend as their begins do.
int64_t read_common(const core::SafetensorsReader& file,
                    const core::SafetensorsReader::Entry& entry, const ShardRange& range,
                    const Target& target) {
  int64_t read = 0;
  layout::Runs saved = range.runs();
  for (layout::Run from; saved.next(from);) {
    const int64_t last = from.whole + from.count;
    auto to = std::partition_point(
        target.runs.begin(), target.runs.end(),
        [&](const layout::Run& run) { return run.whole + run.count <= from.whole; });
    for (; to != target.runs.end() && to->whole < last; ++to) {
      const int64_t begin = std::max(to->whole, from.whole);
      const int64_t end = std::min(to->whole + to->count, last);
      const int64_t place = to->part + begin - to->whole;
      file.read(entry, from.part + begin - from.whole,
                target.into.slice(0, place, place + end - begin));
      read += end - begin;
    }
  }
  return read;
}

// Whether a part has an element that the target wants.
bool have_common(const ShardRange& range, const Target& target) {
  layout::Runs saved = range.runs();
  for (layout::Run from; saved.next(from);) {
    const auto to = std::partition_point(
        target.runs.begin(), target.runs.end(),
        [&](const layout::Run& run) { return run.whole + run.count <= from.whole; });
    if (to != target.runs.end() && to->whole < from.whole + from.count) return true;
  }
  return false;
}

// A tensor that cannot be read may be one of the model's.
void check_readable(const core::SafetensorsReader& file, const std::string& path) {
  for (const auto& [name, dtype] : file.unreadable()) {
    fail("checkpoint: ", path, ": tensor '", name, "' has dtype '", dtype,
         "', which Hero does not have; convert it first, or remove it");
  }
}

void read_file(const std::string& path, std::map<std::string, std::vector<Target>>& targets) {
  const core::SafetensorsReader file(path);
  check_readable(file, path);
  for (const auto& entry : file.entries()) {
    const auto found = targets.find(entry.name);
    if (found == targets.end()) continue;
    const ShardRange range = range_of(file, entry, path);
    for (Target& target : found->second) {
      check(target.into.dtype() == entry.dtype && target.whole == range.whole, "checkpoint: ", path,
            ": '", entry.name, "' is part of ", entry.dtype, " ", range.whole,
            ", which its index says of ", target.into.dtype(), " ", target.whole);
      target.read += read_common(file, entry, range, target);
    }
  }
}

FileIndex index_of(const std::string& path) {
  const core::SafetensorsReader file(path);
  check_readable(file, path);
  FileIndex index;
  for (const auto& entry : file.entries()) {
    index[entry.name] = {entry.dtype, range_of(file, entry, path)};
  }
  return index;
}

}  // namespace

FileContent content_of(std::vector<NamedPart> parts) {
  FileContent file;
  for (NamedPart& part : parts) {
    const bool whole = part.range.is_whole();
    if (!whole) file.metadata[kPart + part.name] = place_text(part.range);
    // taken out of the part, so that nobody else holds what was made for this file
    const Array array = std::exchange(part.array, {});
    file.arrays.push_back(
        {part.name, array.reshape(whole ? part.range.whole : Shape{array.numel()})});
  }
  return file;
}

PartFiles::PartFiles(std::vector<PartFile> files) : files_(std::move(files)) {
  std::map<std::string, std::vector<const ShardRange*>> pieces;
  for (PartFile& file : files_) {
    if (!file.index) file.index = index_of(file.path);
    for (const auto& [name, part] : *file.index) {
      const Shape& whole = part.range.whole;
      const auto [found, fresh] = values_.emplace(name, Value{part.dtype, whole});
      check(fresh || (found->second.dtype == part.dtype && found->second.whole == whole),
            "checkpoint: ", file.path, ": '", name, "' is part of ", part.dtype, " ", whole,
            ", in another file of ", found->second.dtype, " ", found->second.whole);
      pieces[name].push_back(&part.range);
    }
  }
  for (const auto& [name, ranges] : pieces) {
    const std::string fault = cover_fault(values_.at(name).whole, ranges);
    check(fault.empty(), "checkpoint: the parts of '", name, "' ", fault, ", in the files beside ",
          files_.front().path);
  }
}

void PartFiles::read(std::span<const Wanted> wanted) const {
  std::map<std::string, std::vector<Target>> targets;
  for (const Wanted& one : wanted) targets[one.name].emplace_back(one);
  for (const PartFile& file : files_) {
    const bool needed = std::any_of(file.index->begin(), file.index->end(), [&](const auto& part) {
      const auto found = targets.find(part.first);
      return found != targets.end() &&
             std::any_of(found->second.begin(), found->second.end(), [&](const Target& target) {
               return have_common(part.second.range, target);
             });
    });
    if (needed) read_file(file.path, targets);
  }
  for (const auto& [name, list] : targets) {
    for (const Target& target : list) {
      check(target.read == target.into.numel(), "checkpoint: the files beside ",
            files_.front().path, " hold ", target.read, " of ", target.into.numel(),
            " elements of '", name, "' that they should; load another checkpoint");
    }
  }
}

}  // namespace hero::dist

#include <cstring>

#include <hero/core/error.h>
#include <hero/dist/gather_texts.h>

namespace hero::dist {
namespace {

Array bytes_of_text(const std::string& text) {
  const Array bytes = Array::empty({static_cast<int64_t>(text.size())}, kUInt8);
  if (!text.empty()) std::memcpy(bytes.data<uint8_t>(), text.data(), text.size());
  return bytes;
}

std::string text_of(const Array& bytes) {
  const auto* const data = reinterpret_cast<const char*>(bytes.data<uint8_t>());
  return bytes.numel() == 0 ? std::string() : std::string(data, data + bytes.numel());
}

}  // namespace

std::vector<std::string> gather_texts(const Communicator& world, const std::string& text) {
  const CallOptions named = {.unit = "texts"};
  const Array sizes = Array::empty({world.size()}, kInt64);
  world.all_gather(sizes, Array::full({1}, static_cast<double>(text.size()), kInt64), named);
  const std::vector<int64_t> counts = sizes.to_vector<int64_t>();
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const Array all = Array::empty({total}, kUInt8);
  world.all_gather(all, bytes_of_text(text), {.unit = "texts", .counts = counts});
  std::vector<std::string> texts;
  int64_t at = 0;
  for (const int64_t count : counts) {
    texts.push_back(text_of(all.slice(0, at, at + count)));
    at += count;
  }
  return texts;
}

std::string broadcast_text(const Communicator& world, const std::string& text, int root) {
  check(root >= 0 && root < world.size(), "broadcast_text: the root ", root,
        " is no rank of a group of ", world.size());
  const CallOptions named = {.unit = "texts"};
  const Array size = Array::full({1}, static_cast<double>(text.size()), kInt64);
  world.broadcast(size, root, named);
  const int64_t count = size.to_vector<int64_t>()[0];
  const Array bytes = world.rank() == root ? bytes_of_text(text) : Array::zeros({count}, kUInt8);
  world.broadcast(bytes, root, named);
  return text_of(bytes);
}

}  // namespace hero::dist

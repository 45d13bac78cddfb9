#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <sys/stat.h>
#include <zlib.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/nn/data/bytes.h>

namespace hero::nn::data {
namespace {

constexpr size_t kMinGzipBytes = 18;             // header and trailer
constexpr size_t kMaxRatio = 1032;               // of deflate: no stream expands further
constexpr size_t kPieceBytes = size_t{1} << 20;  // of input at once
constexpr size_t kMoreBytes = size_t{1} << 16;   // of output, where its length is not known

class Inflater {
 public:
  Inflater(const std::string& label, uint64_t limit) : label_(label), limit_(limit) {
    constexpr int kGzipOnly = 15 + 16;
    check(inflateInit2(&stream_, kGzipOnly) == Z_OK, "gunzip: ", label, ": zlib does not start");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Decompresses one gzip member from the front of `in` and appends it to `out`; returns the number
  // of bytes read.
  size_t member(std::span<const std::byte> in, std::vector<std::byte>& out) {
    check(inflateReset(&stream_) == Z_OK, "gunzip: ", label_, ": zlib does not start again");
    size_t taken = 0;
    while (true) {
      const size_t given = std::min(in.size() - taken, kPieceBytes);
      const size_t begin = out.size();
      const size_t space = std::max(kMoreBytes, out.capacity() - begin);
      out.resize(begin + std::min(space, 64 * kPieceBytes));
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data() + taken));
      stream_.avail_in = static_cast<uInt>(given);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + begin);
      stream_.avail_out = static_cast<uInt>(out.size() - begin);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      taken += given - stream_.avail_in;
      out.resize(out.size() - stream_.avail_out);
      check(out.size() <= limit_, "gunzip: ", label_, ", of ", in.size(),
            " bytes, unpacks to more than ", limit_,
            "; if it is what you want, unpack it with gunzip and read the file that this makes");
      if (status == Z_STREAM_END) return taken;
      check(status == Z_OK || status == Z_BUF_ERROR, "gunzip: ", label_, " is damaged at byte ",
            taken, " of ", in.size(), ": ", stream_.msg != nullptr ? stream_.msg : "not gzip data");
      check(taken < in.size() || out.size() > begin, "gunzip: ", label_,
            " is truncated: it ends after ", in.size(), " bytes, inside the compressed data");
    }
  }

 private:
  const std::string& label_;
  uint64_t limit_;
  z_stream stream_ = {};
};

bool ends_with_gz(const std::string& path) { return std::string_view(path).ends_with(".gz"); }

}  // namespace

std::vector<std::byte> gunzip(std::span<const std::byte> bytes, const std::string& label,
                              uint64_t limit) {
  const auto at = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  check(bytes.size() >= 2 && at(0) == 0x1f && at(1) == 0x8b, "gunzip: ", label,
        " is not a gzip file: it does not begin with 1f 8b");
  check(bytes.size() >= kMinGzipBytes, "gunzip: ", label, " is truncated: it has ", bytes.size(),
        " bytes");
  // The trailer tells the length of the last member, which is nearly always the only one.
  const size_t n = bytes.size();
  const size_t told = at(n - 4) | at(n - 3) << 8 | at(n - 2) << 16 | at(n - 1) << 24;
  std::vector<std::byte> out;
  // And room to see that there is no more, or the last piece would copy all before it.
  out.reserve(std::min({told, n * kMaxRatio, limit}) + kMoreBytes);
  Inflater inflater(label, limit);
  while (!bytes.empty()) bytes = bytes.subspan(inflater.member(bytes, out));
  return out;
}

std::vector<std::byte> read_bytes(const std::string& path) {
  return with_file_errors("read", path, [&] {
    const InputFile file(path);
    std::vector<std::byte> bytes(static_cast<size_t>(file.size()));
    file.read(0, bytes);
    return ends_with_gz(path) ? gunzip(bytes, path) : bytes;
  });
}

std::string read_text(const std::string& path) {
  if (!ends_with_gz(path)) return read_file_text(path);
  return with_file_errors("read", path, [&] {
    const std::vector<std::byte> bytes = read_bytes(path);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string data_folder() {
  const char* folder = std::getenv("HERO_DATA");
  return folder != nullptr ? folder : "";
}

}  // namespace hero::nn::data

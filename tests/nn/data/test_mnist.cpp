#include <cstdlib>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <zlib.h>

#include <hero/nn/data/bytes.h>
#include <hero/nn/data/idx.h>
#include <hero/nn/data/loader.h>
#include <hero/nn/data/mnist.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using hero::Array;
using hero_test::slurp;
using hero_test::spill;
using hero_test::TempDir;

std::string gzipped(const std::string& bytes) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Two images of 2 x 3 and their classes, as `part` of a data set.
void write_small(const TempDir& dir, const std::string& part) {
  save_idx(dir / (part + "-images-idx3-ubyte"),
           hero::test::make(
               {2, 2, 3}, [](int64_t i) { return 20.0 * static_cast<double>(i); }, hero::kUInt8));
  save_idx(dir / (part + "-labels-idx1-ubyte"), Array::from(std::vector<uint8_t>{9, 4}, {2}));
}

TEST_CASE("arrays survive an IDX file, plain and compressed", "[nn][data][idx]") {
  const TempDir dir;
  for (const hero::DType dtype : {hero::kUInt8, hero::kInt32, hero::kFloat32, hero::kFloat64}) {
    for (const hero::Shape& shape :
         {hero::Shape{}, hero::Shape{5}, hero::Shape{2, 3, 4}, hero::Shape{3, 0}}) {
      const Array array = hero::test::make(
          shape, [](int64_t i) { return static_cast<double>(3 * i + 1); }, dtype);
      save_idx(dir / "x", array);
      CHECK(hero::test::same(load_idx(dir / "x"), array));
      spill(dir / "x.gz", gzipped(slurp(dir / "x")));
      CHECK(hero::test::same(load_idx(dir / "x.gz"), array));
    }
  }
  // big endian, as the format says
  save_idx(dir / "x", Array::full({1}, 258, hero::kInt32));
  CHECK(slurp(dir / "x") == std::string("\0\0\x0c\1\0\0\0\1\0\0\1\2", 12));
  CHECK_THROWS_WITH(save_idx(dir / "x", Array::full({1}, 1, hero::kInt64)),
                    ContainsSubstring("no int64"));
}

TEST_CASE("int8 and int16 of an IDX file are read as int32, all others with their values",
          "[nn][data][idx]") {
  const TempDir dir;
  const auto load = [&](const char* start, const std::string& data) {
    spill(dir / "x", std::string(start, 8) + data);
    return load_idx(dir / "x");
  };
  const Array bytes = load("\0\0\x09\1\0\0\0\3", "\x7F\x80\xFF");
  CHECK(hero::test::same(bytes, Array::from(std::vector<int32_t>{127, -128, -1}, {3})));
  const Array shorts = load("\0\0\x0b\1\0\0\0\3", std::string("\x7F\xFF\x80\x00\xFF\xFE", 6));
  CHECK(hero::test::same(shorts, Array::from(std::vector<int32_t>{32767, -32768, -2}, {3})));
  CHECK(load("\0\0\x0b\1\0\0\0\0", "").shape() == hero::Shape{0});
  const Array ints = load("\0\0\x0c\1\0\0\0\2", std::string("\1\2\3\4\xFF\xFF\xFF\xFE", 8));
  CHECK(hero::test::same(ints, Array::from(std::vector<int32_t>{0x01020304, -2}, {2})));
  const Array floats = load("\0\0\x0d\1\0\0\0\1", std::string("\xBF\xA0\0\0", 4));
  CHECK(hero::test::same(floats, Array::from(std::vector<float>{-1.25f}, {1})));
  const Array doubles = load("\0\0\x0e\1\0\0\0\1", std::string("\xBF\xF4\0\0\0\0\0\0", 8));
  CHECK(hero::test::same(doubles, Array::from(std::vector<double>{-1.25}, {1})));
}

TEST_CASE("a broken IDX file is refused by name", "[nn][data][idx]") {
  const TempDir dir;
  const auto error = [&](const std::string& bytes, const std::string& name = "x") {
    spill(dir / name, bytes);
    return hero::test::error_of([&] { load_idx(dir / name); });
  };
  const std::string good("\0\0\x08\2\0\0\0\2\0\0\0\2abcd", 16);
  CHECK(error(good).empty());
  CHECK_THAT(error("PK\x08\2" + good.substr(4)),
             ContainsSubstring(dir / "x") &&
                 ContainsSubstring("is not an IDX file: it begins with 80 75"));
  CHECK_THAT(error(std::string("\0\0\x0a\1\0\0\0\1a", 9)), ContainsSubstring("element type 10"));
  CHECK_THAT(error(std::string("\0\0\x0b\1\0\0\0\1a", 9)), ContainsSubstring("holds 1 bytes"));
  CHECK_THAT(error(good.substr(0, 15)), ContainsSubstring("holds 3 bytes of data, shape [2, 2]"));
  CHECK_THAT(error(good + "e"), ContainsSubstring("holds 5 bytes"));
  CHECK_THAT(error(good.substr(0, 9)), ContainsSubstring("ends inside its header"));
  CHECK_THAT(error("ab"), ContainsSubstring("too few"));
  std::string huge("\0\0\x0e\x04", 4);
  huge.append(16, '\xff');
  CHECK_THAT(error(huge), ContainsSubstring("impossible shape"));
  std::string deep("\0\0\x08\xff", 4);
  CHECK_THAT(error(deep.append(255 * 4, '\0')), ContainsSubstring("255 dimensions"));

  const std::string packed = gzipped(good);
  CHECK(error(packed, "x.gz").empty());
  CHECK_THAT(error(packed.substr(0, packed.size() - 1), "x.gz"),
             ContainsSubstring(dir / "x.gz") && ContainsSubstring("is truncated"));
  CHECK_THAT(error(packed.substr(0, 12), "x.gz"), ContainsSubstring("is truncated"));
  CHECK_THAT(error(good, "x.gz"), ContainsSubstring("is not a gzip file"));
  std::string flipped = packed;
  flipped[packed.size() - 7] = static_cast<char>(flipped[packed.size() - 7] ^ 1);  // the CRC
  CHECK_THAT(error(flipped, "x.gz"), ContainsSubstring("is damaged"));
  CHECK_THAT(error(packed + "tail", "x.gz"), ContainsSubstring("is damaged"));
  CHECK_THAT(hero::test::error_of([&] { load_idx(dir / "none"); }),
             ContainsSubstring("cannot open " + (dir / "none")));
}

TEST_CASE("gzip members one after the other are one file", "[nn][data][idx]") {
  const std::string bytes = gzipped("hello ") + gzipped("") + gzipped("world");
  const auto out = gunzip(std::as_bytes(std::span(bytes)), "bytes");
  CHECK(std::string(reinterpret_cast<const char*>(out.data()), out.size()) == "hello world");
}

TEST_CASE("images and classes are read from four files", "[nn][data]") {
  const TempDir dir;
  write_small(dir, "train");
  const FashionMNIST train({.root = dir / ""});
  CHECK(train.size() == 2);
  const auto [image, target] = train.get(1);
  CHECK(image.shape() == hero::Shape{1, 2, 3});
  CHECK(image.dtype() == hero::kFloat32);
  CHECK(image.to_vector<float>()[5] == 220.0f / 255.0f);
  CHECK(target.item<int64_t>() == 4);
  CHECK(train.classes().at(9) == "Ankle boot");
  const MNIST raw({.root = dir / "", .dtype = hero::kUInt8});
  CHECK(raw.get_batch(std::vector<int64_t>{1, 0})[0].to_vector<int64_t>()[5] == 220);
  CHECK(raw.classes().at(9) == "9");
  CHECK_THROWS_WITH(MNIST({.train = false, .root = dir / ""}),
                    ContainsSubstring("no t10k-images-idx3-ubyte") && ContainsSubstring(dir / ""));
  CHECK_THROWS_WITH(FashionMNIST({.train = false, .root = dir / ""}),
                    ContainsSubstring("install the package dataset-fashion-mnist"));
  CHECK_THROWS_WITH(MNIST({.root = dir / "", .dtype = hero::kInt64}), ContainsSubstring("int64"));

  save_idx(dir / "train-labels-idx1-ubyte", Array::from(std::vector<uint8_t>{1, 2, 3}, {3}));
  CHECK_THROWS_WITH(MNIST({.root = dir / ""}),
                    ContainsSubstring("2 images in") && ContainsSubstring("3 labels in"));
  save_idx(dir / "train-labels-idx1-ubyte", Array::from(std::vector<uint8_t>{1, 10}, {2}));
  CHECK_THROWS_WITH(
      MNIST({.root = dir / ""}),
      ContainsSubstring("label 1 of") && ContainsSubstring("is 10, there are 10 classes"));
}

TEST_CASE("HERO_DATA names the folder that is searched first", "[nn][data]") {
  const TempDir dir;
  write_small(dir, "t10k");
  REQUIRE(::setenv("HERO_DATA", (dir / "").c_str(), 1) == 0);
  CHECK(FashionMNIST({.train = false}).size() == 2);
  CHECK(MNIST({.train = false}).size() == 2);
  ::unsetenv("HERO_DATA");
}

TEST_CASE("Debian's Fashion-MNIST is whole", "[nn][data]") {
  const FashionMNIST test({.train = false});
  CHECK(test.size() == 10000);
  CHECK(test.images().shape() == hero::Shape{10000, 28, 28});
  std::vector<int> counts(10);
  DataLoader loader(test, {.batch_size = 1000, .shuffle = true, .workers = 2});
  for (const auto& [images, targets] : loader) {
    CHECK(images.shape() == hero::Shape{1000, 1, 28, 28});
    for (const int64_t target : targets.to_vector<int64_t>()) ++counts[static_cast<size_t>(target)];
  }
  CHECK(counts == std::vector<int>(10, 1000));
}

}  // namespace

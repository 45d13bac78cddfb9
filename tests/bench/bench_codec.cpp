// Codecs against reading memory, measured in turns. "of_read%" is the share of the read bandwidth
// that the bytes which a call reads and writes reach, those of the codes among them, each counted
// once; "floats%" is that of the float32 values alone.
#include <string>

#include "bench/measure.h"

#include <hero/core/functions/codec.h>

namespace {

using hero::core::Array;
using hero::core::Codec;
using hero::core::DecodeMode;

constexpr int64_t kCount = 16 << 20;
constexpr int64_t kRows = 4, kRow = kCount / kRows;

struct Arrays {
  Array x = Array::empty({kCount}), error = Array::zeros({kCount});
  Array bytes;

  explicit Arrays(Codec codec)
      : bytes(Array::zeros({kRows, hero::core::encoded_bytes(codec, kRow)}, hero::kUInt8)) {
    for (int64_t i = 0; i < kCount; ++i) {
      x.data<float>()[i] = static_cast<float>(i % 1013) * 0.01f - 5.0f;
    }
    hero::core::encode(codec, x, kRow, bytes);
  }
};

// `passes`: how often the call goes through 64 MiB of float32 values.
template <class Work>
void measure(benchmark::State& state, int threads, double passes, const Array& bytes,
             const Work& work) {
  const hero::ThreadLimit limit(threads);
  const bench::Buffer from(kCount);
  const auto times = bench::in_turns(state, work, [&] { bench::read(from); });
  const double floats = 100.0 * passes * times.reference / times.work;
  const double all = passes + static_cast<double>(bytes.nbytes()) / (4.0 * kCount);
  state.counters["floats%"] = floats;
  state.counters["of_read%"] = floats * all / passes;
  state.counters["of_read%_best"] = 100.0 * all * times.best_reference / times.best_work;
  state.counters["read_GB/s"] = 4e-9 * kCount / times.best_reference;
}

void encode(benchmark::State& state, Codec codec, int threads) {
  const Arrays a(codec);
  measure(state, threads, 1, a.bytes, [&] { hero::core::encode(codec, a.x, kRow, a.bytes); });
}
// Reads x and the error, and writes the error; signs read and write it once more, as their scale is
// of a whole row.
void encode_with_error(benchmark::State& state, Codec codec, int threads) {
  const Arrays a(codec);
  measure(state, threads, codec == Codec::sign1 ? 5 : 3, a.bytes,
          [&] { hero::core::encode(codec, a.x, kRow, a.bytes, &a.error); });
}
void decode(benchmark::State& state, Codec codec, int threads) {
  const Arrays a(codec);
  measure(state, threads, 1, a.bytes, [&] { hero::core::decode(codec, a.bytes, kRow, a.x); });
}
// Reads what is there, and writes it.
void decode_and_add(benchmark::State& state, Codec codec, int threads) {
  const Arrays a(codec);
  measure(state, threads, 2, a.bytes,
          [&] { hero::core::decode(codec, a.bytes, kRow, a.x, DecodeMode::add); });
}

[[maybe_unused]] const bool registered = [] {
  for (const int threads : {1, 2}) {
    for (const Codec codec :
         {Codec::sign1, Codec::int8, Codec::int4, Codec::fp8_e4m3, Codec::fp8_e5m2}) {
      const auto add = [&](const std::string& what, auto run) {
        const std::string name =
            what + "/" + hero::core::name(codec) + "/16Mi/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(
            name.c_str(),
            [run, codec, threads](benchmark::State& state) { run(state, codec, threads); })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
      };
      add("encode", encode);
      add("encode_with_error", encode_with_error);
      add("decode", decode);
      add("decode_and_add", decode_and_add);
    }
  }
  return true;
}();

}  // namespace

BENCHMARK_MAIN();

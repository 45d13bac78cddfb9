#include <algorithm>
#include <cmath>
#include <cstring>

#include <hero/core/device/backend.h>
#include <hero/core/functions/codec.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/ledger.h>
#include <hero/dist/compress/one_bit_mean.h>

namespace hero::dist {
namespace {

using core::Codec;

Array piece(const Array& x, int64_t begin, int64_t count) {
  return x.slice(0, begin, begin + count);
}

// The scales of the rows of a bucket's bytes.
std::vector<float> scales_of(const Array& bytes) {
  const Array heads = bytes.slice(1, 0, 4).to(kCpu).contiguous();
  std::vector<float> scales(static_cast<size_t>(bytes.size(0)));
  std::memcpy(scales.data(), heads.bytes(), scales.size() * sizeof(float));
  return scales;
}

}  // namespace

OneBitMean::OneBitMean(Communicator comm, int64_t elements, Device device, int64_t bucket_elements,
                       double divide_by)
    : comm_(std::move(comm)), divide_by_(divide_by) {
  int64_t rows = 0;
  for (int64_t begin = 0; begin < elements; begin += bucket_elements) {
    const int64_t count = std::min(bucket_elements, elements - begin);
    const int64_t row = core::row_elements(Codec::sign1, count, comm_.size());
    const int64_t own = std::clamp<int64_t>(count - comm_.rank() * row, 0, row);
    buckets_.push_back({begin, count, row, rows, own});
    rows += own;
  }
  const MemoryScope tag(MemoryTag::optimizer);
  worker_error_ = Array::zeros({elements}, kFloat32, device);
  server_error_ = Array::zeros({rows}, kFloat32, device);
}

std::vector<OneBitMean::Range> OneBitMean::mean(const Array& x) {
  struct UnderWay {
    Array sent, received;
    Work work;
  };
  const MemoryScope tag(MemoryTag::communication);
  const int ranks = comm_.size();
  std::vector<UnderWay> all;
  for (const Bucket& b : buckets_) {
    UnderWay& way = all.emplace_back();
    const Shape bytes{ranks, core::encoded_bytes(Codec::sign1, b.row)};
    way.sent = Array::empty(bytes, kUInt8, x.device());
    way.received = Array::empty(bytes, kUInt8, x.device());
    const Array error = piece(worker_error_, b.begin, b.count);
    core::encode(Codec::sign1, piece(x, b.begin, b.count), b.row, way.sent, &error);
    way.work = comm_.all_to_all(way.received, way.sent, {.async = true});
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& b = buckets_[i];
    UnderWay& way = all[i];
    way.work.wait();
    const Array sum = Array::empty({b.own}, kFloat32, x.device());
    core::decode(Codec::sign1, way.received, b.row, sum, core::DecodeMode::sum);
    if (b.own > 0) core::map_into<core::kernels::Div>(sum, sum, Scalar(divide_by_));
    const Array mine = way.sent.slice(0, comm_.rank(), comm_.rank() + 1);
    const Array error = piece(server_error_, b.server, b.own);
    core::encode(Codec::sign1, sum, b.row, mine, &error);
    way.work = comm_.all_gather(way.sent, mine, {.async = true});
  }
  std::vector<Range> lost;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& b = buckets_[i];
    all[i].work.wait();
    core::decode(Codec::sign1, all[i].sent, b.row, piece(x, b.begin, b.count));
    if (x.device().type == DeviceType::meta) continue;
    const std::vector<float> scales = scales_of(all[i].sent);
    for (size_t row = 0; row < scales.size(); ++row) {
      const int64_t begin = b.begin + static_cast<int64_t>(row) * b.row;
      if (std::isnan(scales[row])) {
        lost.push_back({begin, std::min(begin + b.row, b.begin + b.count)});
      }
    }
  }
  return lost;
}

int64_t OneBitMean::bytes() const {
  int64_t bytes = 0;
  for (const Bucket& b : buckets_) {
    bytes += 2 * (comm_.size() - 1) * core::encoded_bytes(Codec::sign1, b.row);
  }
  return bytes;
}

optim::StateDict OneBitMean::errors() const {
  return {{"worker_error", worker_error_.clone()}, {"server_error", server_error_.clone()}};
}

void OneBitMean::set_errors(const char* what, const optim::StateDict& dict) {
  const Array* found[2] = {};
  for (const auto& [name, array] : dict) {
    const bool worker = name == "worker_error";
    const Array& own = worker ? worker_error_ : server_error_;
    check(worker || name == "server_error", what, ": '", name, "' is no error of bits");
    check(array.dtype() == kFloat32 && array.shape() == own.shape(), what, ": '", name, "' is ",
          array.dtype(), " ", array.shape(), ", not float32 ", own.shape(),
          "; it is of other parameters, buckets or ranks");
    found[worker ? 0 : 1] = &array;
  }
  check(found[0] && found[1], what, ": worker_error or server_error is missing");
  core::backend(worker_error_.device()).run(core::call::Copy{*found[0], worker_error_});
  if (server_error_.numel() > 0) {
    core::backend(server_error_.device()).run(core::call::Copy{*found[1], server_error_});
  }
}

void OneBitMean::reset() {
  core::backend(worker_error_.device()).run(core::call::Fill{worker_error_, 0.0});
  if (server_error_.numel() > 0)
    core::backend(server_error_.device()).run(core::call::Fill{server_error_, 0.0});
}

}  // namespace hero::dist

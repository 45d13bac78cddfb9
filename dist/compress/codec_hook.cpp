#include <algorithm>

#include <hero/core/device/backend.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/ledger.h>
#include <hero/dist/compress/error_feedback.h>
#include <hero/dist/ddp_comm_hooks.h>

namespace hero::dist {

struct CodecHook::State {
  CodecHookOptions options;
  ErrorFeedback errors;
};

namespace {

// The encoded messages of one bucket that are under way.
struct CodecExchange {
  GradBucket bucket;
  Codec codec;
  int64_t row;           // elements of each rank's part, but of the last ones
  Array sent, received;  // uint8 [ranks, bytes of a row]
  Array mean;            // of this rank's part, float32

  CodecExchange(const GradBucket& of, Codec with) : bucket(of), codec(with) {
    const int64_t n = bucket.buffer.numel();
    const int ranks = bucket.comm.size(), rank = bucket.comm.rank();
    row = core::row_elements(codec, n, ranks);
    const Device device = bucket.buffer.device();
    const Shape bytes{ranks, core::encoded_bytes(codec, row)};
    const MemoryScope tag(MemoryTag::communication);
    sent = Array::empty(bytes, kUInt8, device);
    received = Array::empty(bytes, kUInt8, device);
    mean = Array::empty({std::clamp<int64_t>(n - rank * row, 0, row)}, kFloat32, device);
  }

  Work scatter(const Array* error) {
    core::encode(codec, bucket.buffer, row, sent, error);
    return bucket.comm.all_to_all(received, sent, {.async = true});
  }
  Work gather(const Array* error) {
    core::decode(codec, received, row, mean, core::DecodeMode::sum);
    if (mean.numel() > 0) {
      core::map_into<core::kernels::Div>(mean, mean, Scalar(bucket.divide_by));
    }
    const int64_t rank = bucket.comm.rank();
    const Array mine = sent.slice(0, rank, rank + 1);
    core::encode(codec, mean, row, mine, error);
    return bucket.comm.all_gather(sent, mine, {.async = true});
  }
  void finish() const { core::decode(codec, sent, row, bucket.buffer); }
};

}  // namespace

CodecHook::CodecHook(const CodecHookOptions& options)
    : state_(std::make_shared<State>(State{options, {}})) {}

CodecHook::operator CommHook() const {
  const CodecHookOptions& o = state_->options;
  return {std::string(core::name(o.codec)) +
              (o.error_feedback ? " with error feedback" : " without error feedback"),
          [state = state_](const GradBucket& bucket) {
            const DType dtype = bucket.buffer.dtype();
            check(dtype == kFloat32 || is_half(dtype), "codec hook: bucket ", bucket.index, " of '",
                  bucket.parameters.front().name, "' is ", dtype,
                  "; it takes float32, float16 and bfloat16");
            const auto exchange = std::make_shared<CodecExchange>(bucket, state->options.codec);
            const bool feedback = state->options.error_feedback;
            const Array* error = feedback ? &state->errors.of(bucket) : nullptr;
            return Future(exchange->scatter(error))
                .then([state, exchange, feedback] {
                  const Array* of_mean =
                      feedback ? &state->errors.of_mean(exchange->bucket, exchange->mean.numel())
                               : nullptr;
                  return exchange->gather(of_mean);
                })
                .then([exchange] { exchange->finish(); });
          }};
}

optim::StateDict CodecHook::rank_state_dict() const { return state_->errors.state_dict(); }
void CodecHook::load_rank_state_dict(const optim::StateDict& dict) {
  state_->errors.load_state_dict("codec hook", dict);
}
void CodecHook::reset_rank_state() { state_->errors.reset(); }

}  // namespace hero::dist

#include <hero/core/device/backend.h>
#include <hero/dist/ddp_comm_hooks.h>

namespace hero::dist {
namespace {

CommHook half_hook(const char* name, DType half) {
  return {name, [half](const GradBucket& bucket) {
            const Array rounded = bucket.buffer.to(half);
            return Future(bucket.comm.all_reduce(rounded, bucket.mean))
                .then([rounded, buffer = bucket.buffer] {
                  if (buffer.dtype() == rounded.dtype()) return;  // the buffer itself
                  core::backend(buffer.device()).run(core::call::Copy{rounded, buffer});
                });
          }};
}

}  // namespace

CommHook fp16_compress_hook() { return half_hook("fp16", kFloat16); }
CommHook bf16_compress_hook() { return half_hook("bf16", kBFloat16); }

}  // namespace hero::dist

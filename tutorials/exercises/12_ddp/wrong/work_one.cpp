// says: A Work waits for its own call and for no other
#include "exercises/12_ddp/exercise.h"

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::ReduceOp, hero::dist::Work;

namespace exercise {

// Some parameters whose gradients travel together.
struct Bucket {
  std::vector<Tensor> parameters;
  int64_t bytes = 0;  // of their gradients
  size_t ready = 0;   // how many of the gradients are complete in this backward
  Array packed;       // the gradients, one behind the other, while they travel
  Work work;          // the all_reduce of `packed`
};

class DDP : public DataParallel {
 public:
  DDP(hero::nn::Module& net, const Communicator& world, int64_t bucket_bytes) : world_(world) {
    const std::vector<Tensor> parameters = net.parameters();  // in the order of forward
    for (const Tensor& p : parameters) world.broadcast(p.array(), 0);

    // Backward reaches the last layer first. So the buckets are filled from the last parameter to
    // the first; a bucket that has bucket_bytes or more is full, and the next parameter begins a
    // new one.
    for (size_t i = parameters.size(); i > 0; --i) {
      const Tensor& p = parameters[i - 1];
      if (buckets_.empty() || buckets_.back().bytes >= bucket_bytes) buckets_.emplace_back();
      Bucket& bucket = buckets_.back();
      bucket.parameters.push_back(p);
      bucket.bytes += p.array().nbytes();
      p.register_leaf_hook([this, &bucket](const Tensor&) { gradient_is_complete(bucket); });
    }
  }

  void finish() override {
    for (Bucket& bucket : buckets_) {
      work_.wait();
      unpack(bucket.packed, bucket.parameters);
      bucket.packed = {};
      bucket.ready = 0;
    }
  }

 private:
  // The gradient of one more parameter of this bucket is complete.
  void gradient_is_complete(Bucket& bucket) {
    if (++bucket.ready < bucket.parameters.size()) return;
    bucket.packed = pack(bucket.parameters);
    work_ = world_.all_reduce(bucket.packed, {.op = ReduceOp::mean, .async = true});
  }

  const Communicator& world_;
  Work work_;
  std::list<Bucket> buckets_;  // a list: the hooks refer to its elements
};

std::unique_ptr<DataParallel> data_parallel(hero::nn::Module& net, const Communicator& world,
                                            int64_t bucket_bytes) {
  return std::make_unique<DDP>(net, world, bucket_bytes);
}

}  // namespace exercise

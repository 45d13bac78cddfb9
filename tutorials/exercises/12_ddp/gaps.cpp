// 12. DDP: hooks and buckets (chapter 11)
//
// Every rank has the whole network and computes the gradients of its own rows. You write what makes
// one training run of it: all ranks begin with the values of rank 0, and every gradient is replaced
// by the mean over the ranks. Gradients travel in buckets, and a bucket leaves as soon as its last
// gradient is complete, while backward computes the others.
//
// What you need of the library, where p is a parameter (a Tensor) and world is the Communicator,
// which is called world_ outside of the constructor:
//   world.broadcast(p.array(), 0)      the values of p become those of rank 0
//   world.all_reduce(array, {.op = ReduceOp::mean, .async = true})
//                                      begins to replace the array by its mean over the ranks, and
//                                      returns a Work at once
//   work.wait()                        returns when the mean has come
//   p.register_leaf_hook(function)     in every backward, function is called when the gradient of p
//                                      is complete
//   pack(parameters), unpack(array, parameters)
//                                      gradients into one new array, and back; see
//                                      tutorials/exercises/12_ddp/exercise.h
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
    // WRITE 1: all ranks begin with the values of rank 0.
    to_write("1, the first values, in the constructor of DDP.");

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
      // WRITE 3: wait for the bucket, and put its means into the gradients. Then the bucket is
      // empty again, for the next backward: nothing packed, nothing counted.
      to_write("3, the end of a step, in finish().");
    }
  }

 private:
  // The gradient of one more parameter of this bucket is complete.
  void gradient_is_complete(Bucket& bucket) {
    // WRITE 2: count it. When all gradients of the bucket are complete, pack them and begin their
    // all_reduce, without waiting for it.
    to_write("2, what the hook does, in gradient_is_complete().");
  }

  const Communicator& world_;
  std::list<Bucket> buckets_;  // a list: the hooks refer to its elements
};

std::unique_ptr<DataParallel> data_parallel(hero::nn::Module& net, const Communicator& world,
                                            int64_t bucket_bytes) {
  return std::make_unique<DDP>(net, world, bucket_bytes);
}

}  // namespace exercise

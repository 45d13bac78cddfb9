// Communication hooks of DDP: what they get, in which order they go on, what they leave.
#include <cmath>
#include <mutex>

#include "dist/compress/power_sgd.h"
#include "support/catch.h"

#include <hero/core/functions/codec.h>
#include <hero/dist/ddp.h>
#include <hero/dist/ddp_comm_hooks.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr DDPOptions kSmallBuckets = {.bucket_bytes = 600, .first_bucket_bytes = 100};
constexpr Codec kCodecs[] = {Codec::sign1, Codec::int8, Codec::int4, Codec::fp8_e4m3,
                             Codec::fp8_e5m2};

CommHook mean_by_hand() {
  return {"mean by hand", [](const GradBucket& bucket) {
            return Future(bucket.comm.all_reduce(bucket.buffer, {.async = true})).then([bucket] {
              Tensor(bucket.buffer).div_(bucket.divide_by);
            });
          }};
}

}  // namespace

TEST_CASE("comm_hook: a hook of the program's own gives the bits of DDP's all_reduce") {
  for (const Subject subject : {Subject::mlp, Subject::gpt, Subject::odd}) {
    run_ranks(3, [&](Communicator& world) {
      const CommHook hook = mean_by_hand();
      const auto expected = gradients_by(world, nullptr, subject, 3);
      const auto got = gradients_by(world, &hook, subject, 3);
      for (size_t i = 0; i < got.size(); ++i) {
        expect(unlike(got[i], expected[i]).empty(), "step ", i, ": ", unlike(got[i], expected[i]));
      }
    });
  }
}

TEST_CASE("comm_hook: buckets are those of registration, reversed, and steps keep their order") {
  run_ranks(2, [&](Communicator& world) {
    std::vector<std::string> seen;
    const CommHook hook = {"notes", [&](const GradBucket& bucket) {
                             const std::string b = std::to_string(bucket.index);
                             seen.push_back("begin " + b + (bucket.is_last ? ", last" : ""));
                             for (const BucketParameter& p : bucket.parameters) {
                               seen.push_back(p.name + " " + to_string(p.shape));
                             }
                             return Future(bucket.comm.all_reduce(bucket.buffer, bucket.mean))
                                 .then([&seen, b, bucket] {
                                   seen.push_back("first " + b);
                                   return bucket.comm.all_reduce(Array::ones({1}), bucket.mean);
                                 })
                                 .then([&seen, b] { seen.push_back("second " + b); });
                           }};
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world, kSmallBuckets);
    for (int step = 0; step < 2; ++step) {
      if (step == 0) ddp.register_comm_hook(hook);
      seen.clear();
      world.traffic().reset();
      subject_loss(Subject::mlp, *model, step, world.rank()).backward();
      const std::vector<std::string> expected = {"begin 0",
                                                 "fc3.bias [5]",
                                                 "fc3.weight [5, 11]",
                                                 "begin 1",
                                                 "fc2.bias [11]",
                                                 "fc2.weight [11, 13]",
                                                 "first 0",
                                                 "begin 2, last",
                                                 "fc1.bias [13]",
                                                 "fc1.weight [13, 7]",
                                                 "second 0",
                                                 "first 1",
                                                 "second 1",
                                                 "first 2",
                                                 "second 2"};
      std::string text;
      for (const std::string& line : seen) text += line + "; ";
      expect(seen == expected, text);
      expect(world.traffic().bytes_of_unit("bucket 1") > 0, world.traffic().table());
    }
  });
}

TEST_CASE("comm_hook: ranks with different hooks get an error that names them") {
  const std::vector<std::string> errors = errors_of(3, [](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    ddp.register_comm_hook(world.rank() == 2 ? bf16_compress_hook() : fp16_compress_hook());
  });
  for (const std::string& error : errors) {
    CHECK(error ==
          "ddp: ranks registered different communication hooks: rank 0 has fp16, rank 2 has bf16; "
          "register the same hook on every rank");
  }
  const std::vector<std::string> missing = errors_of(2, [](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    if (world.rank() == 0) ddp.register_comm_hook(CodecHook());
    subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
  });
  for (const std::string& error : missing) {
    CHECK_THAT(error, ContainsSubstring("communication hook"));
  }
  const std::vector<std::string> options = errors_of(2, [](Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const DDP ddp(*model, world);
    ddp.register_comm_hook(CodecHook({.error_feedback = world.rank() == 0}));
  });
  CHECK_THAT(options[0], ContainsSubstring("rank 0 has int8 with error feedback, rank 1 has int8 "
                                           "without error feedback"));
}

TEST_CASE("comm_hook: halves travel, and are added up in float32 and rounded once") {
  for (const DType half : {kFloat16, kBFloat16}) {
    run_ranks(4, [&](Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      std::vector<Floats> own;  // of each rank, rounded
      for (int rank = 0; rank < 4; ++rank) {
        Floats g = gradient_of(Subject::mlp, *model, 0, rank);
        own.push_back(flat_of({Array::from(g, {static_cast<int64_t>(g.size())}).to(half)}));
      }
      Floats expected;
      for (size_t i = 0; i < own[0].size(); ++i) {
        const float sum = (own[0][i] + own[1][i]) + (own[2][i] + own[3][i]);  // Order::tree
        expected.push_back(sum / 4.0f);
      }
      const Array rounded = Array::from(expected, {static_cast<int64_t>(expected.size())}).to(half);
      const CommHook hook = half == kFloat16 ? fp16_compress_hook() : bf16_compress_hook();
      world.traffic().reset();
      const auto got = gradients_by(world, &hook, Subject::mlp, 1);
      expect(unlike(got[0], flat_of({rounded})).empty(), unlike(got[0], flat_of({rounded})));
    });
  }
}

namespace {

// Where a parameter's elements are in a bucket and among those of the model.
struct Place {
  int64_t in_bucket, in_model, numel;
};
struct Layout {
  int64_t numel = 0;
  std::vector<Place> places = {};
};

std::vector<Layout> layouts_of(Subject subject) {
  std::vector<Layout> layouts;
  run_ranks(2, [&](Communicator& world) {
    const auto model = make_subject(subject);
    const DDP ddp(*model, world, kSmallBuckets);
    ddp.register_comm_hook({"layouts", [&](const GradBucket& bucket) {
                              if (world.rank() > 0) return Future();
                              Layout layout{bucket.buffer.numel()};
                              for (const BucketParameter& p : bucket.parameters) {
                                int64_t in_model = 0;
                                for (const auto& [name, tensor] : model->named_parameters()) {
                                  if (name == p.name) break;
                                  in_model += tensor.numel();
                                }
                                layout.places.push_back({p.begin, in_model, p.shape.numel()});
                              }
                              layouts.push_back(layout);
                              return Future();
                            }});
    subject_loss(subject, *model, 0, 0).backward();
  });
  return layouts;
}

// The codec hook of N workers in one process, with whole buckets as arrays.
struct CodecSimulation {
  Codec codec;
  bool feedback;
  std::vector<std::vector<Array>> errors;   // of each bucket, of each worker
  std::vector<std::vector<Array>> of_mean;  // of each bucket, of each rank's part

  Array mean(size_t bucket, const std::vector<Array>& xs) {
    const int64_t n = xs[0].numel();
    const auto workers = static_cast<int>(xs.size());
    const int64_t row = core::row_elements(codec, n, workers);
    const int64_t bytes = core::encoded_bytes(codec, row);
    if (errors.size() <= bucket) {
      errors.resize(bucket + 1);
      of_mean.resize(bucket + 1);
      for (int w = 0; w < workers; ++w) {
        errors[bucket].push_back(Array::zeros({n}));
        of_mean[bucket].push_back(Array::zeros({std::clamp<int64_t>(n - w * row, 0, row)}));
      }
    }
    std::vector<Array> sent;
    for (int w = 0; w < workers; ++w) {
      const auto at = static_cast<size_t>(w);
      sent.push_back(Array::zeros({workers, bytes}, kUInt8));
      core::encode(codec, xs[at], row, sent.back(), feedback ? &errors[bucket][at] : nullptr);
    }
    const Array out = Array::zeros({n}), all = Array::zeros({workers, bytes}, kUInt8);
    for (int j = 0; j < workers; ++j) {
      const Array& error = of_mean[bucket][static_cast<size_t>(j)];
      Floats sum(static_cast<size_t>(error.numel()), 0.0f);
      for (int w = 0; w < workers; ++w) {
        const Array part = Array::zeros({error.numel()});
        core::decode(codec, sent[static_cast<size_t>(w)].slice(0, j, j + 1), row, part);
        for (size_t i = 0; i < sum.size(); ++i) {
          const float value = part.data<float>()[i];
          sum[i] = w == 0 ? value : sum[i] + value;
        }
      }
      for (float& value : sum) value /= static_cast<float>(workers);
      core::encode(codec, Array::from(sum, {error.numel()}), row, all.slice(0, j, j + 1),
                   feedback ? &error : nullptr);
    }
    core::decode(codec, all, row, out);
    return out;
  }
};

}  // namespace

TEST_CASE("comm_hook: codecs have the bits of one process that simulates their workers") {
  const std::vector<Layout> layouts = layouts_of(Subject::mlp);
  REQUIRE(layouts.size() == 3);
  for (const Codec codec : kCodecs) {
    for (const bool feedback : {true, false}) {
      const int ranks = codec == Codec::int4 ? 4 : 3, steps = 3;
      CAPTURE(core::name(codec), feedback);
      CodecSimulation simulation{codec, feedback, {}, {}};
      std::vector<Floats> expected;
      const auto model = make_subject(Subject::mlp);
      for (int step = 0; step < steps; ++step) {
        std::vector<Floats> own;
        for (int w = 0; w < ranks; ++w) own.push_back(gradient_of(Subject::mlp, *model, step, w));
        Floats mean(own[0].size());
        for (size_t b = 0; b < layouts.size(); ++b) {
          std::vector<Array> buckets;
          for (const Floats& gradients : own) {
            buckets.push_back(Array::zeros({layouts[b].numel}));
            for (const Place& place : layouts[b].places) {
              std::copy_n(gradients.data() + place.in_model, place.numel,
                          buckets.back().data<float>() + place.in_bucket);
            }
          }
          const Array out = simulation.mean(b, buckets);
          for (const Place& place : layouts[b].places) {
            std::copy_n(out.data<float>() + place.in_bucket, place.numel,
                        mean.data() + place.in_model);
          }
        }
        expected.push_back(mean);
      }
      run_ranks(ranks, [&](Communicator& world) {
        const CommHook hook = CodecHook({.codec = codec, .error_feedback = feedback});
        world.traffic().reset();
        const auto got = gradients_by(world, &hook, Subject::mlp, steps);
        for (size_t i = 0; i < got.size(); ++i) {
          expect(unlike(got[i], expected[i]).empty(), "step ", i, ": ",
                 unlike(got[i], expected[i]));
        }
        int64_t bytes = 0;
        for (const Layout& layout : layouts) {
          const int64_t row = core::row_elements(codec, layout.numel, ranks);
          bytes += steps * 2 * (ranks - 1) * core::encoded_bytes(codec, row);
        }
        int64_t sent = 0;
        for (const Traffic::Row& row : world.traffic().rows()) {
          if (row.unit.starts_with("bucket")) sent += row.bytes;
        }
        expect(sent == bytes, "sent ", sent, ", not ", bytes);
      });
    }
  }
}

TEST_CASE("comm_hook: a gradient that is not finite is NaN on every rank, and the next is not") {
  run_ranks(2, [&](Communicator& world) {
    for (const bool power : {false, true}) {
      const auto model = make_subject(Subject::mlp);
      const DDP ddp(*model, world, kSmallBuckets);
      power ? ddp.register_comm_hook(PowerSGDHook()) : ddp.register_comm_hook(CodecHook());
      for (int step = 0; step < 3; ++step) {
        for (const Tensor& p : model->parameters()) p.set_grad({});
        Tensor loss = subject_loss(Subject::mlp, *model, step, world.rank());
        if (step == 1 && world.rank() == 1) loss = loss * std::numeric_limits<double>::infinity();
        loss.backward();
        int64_t bad = 0;
        for (const float g : flat_of({model->parameters()[2].grad()})) bad += !std::isfinite(g);
        expect((bad > 0) == (step == 1), "step ", step, ": ", bad);
      }
    }
  });
}

// Attention whose ranks share each sequence, beside other kinds of parallelism, and what is
// refused.
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

namespace {

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

constexpr int64_t kTimes = 16;

struct AttentionRun {
  bool causal = true, batch_first = true, packed = true;
  int slices = 4;
};

// The output at all positions and the gradients of x and of the parameters.
std::vector<Tensor> attend_shared(const AttentionRun& run, dist::Communicator& world) {
  manual_seed(3);
  nn::MultiheadAttentionOptions options{.batch_first = run.batch_first, .num_kv_heads = 2};
  if (!run.packed) options.kdim = 6;
  nn::MultiheadAttention attention(8, 4, options);
  const auto context = dist::context_parallel(attention, world, {.slices = run.slices});
  const dist::DDP ddp(attention, world);
  const int dim = run.batch_first ? 1 : 0;
  const Shape shape = run.batch_first ? Shape{2, kTimes, 8} : Shape{kTimes, 2, 8};
  Shape of_keys = shape;
  if (!run.packed) of_keys[2] = 6;
  const Tensor x = Tensor(noise(shape)).requires_grad_();
  const Tensor keys = run.packed ? x : Tensor(noise(of_keys, kFloat32, 9));
  const Tensor weights(noise(shape, kFloat32, 5));  // of the loss
  const Tensor query = context.take(x, dim), key = run.packed ? query : context.take(keys, dim);
  const Tensor y =
      attention(query, key, query, {.need_weights = false, .is_causal = run.causal}).output;
  context.mean(mean(y * context.take(weights, dim))).backward();
  // each rank has the gradient of x by its own positions
  world.all_reduce(x.grad().array(), {.op = dist::ReduceOp::mean});
  std::vector<Tensor> results = {context.gather(y, dim), x.grad()};
  for (const Tensor& p : attention.parameters()) results.push_back(p.grad());
  return results;
}

std::vector<Tensor> on_first_rank(int ranks, const AttentionRun& run) {
  std::vector<Tensor> results;
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    const std::vector<Tensor> mine = attend_shared(run, world);
    if (world.rank() == 0) {
      for (const Tensor& each : mine) results.push_back(each.detach());
    }
  });
  return results;
}

template <class Make>
std::string context_error(const Make& make, int ranks = 2) {
  return errors_of(ranks, [&](dist::Communicator& world) { make(world); }).back();
}

}  // namespace

TEST_CASE("attention of several ranks is that of one, with the same bits by slices", "[context]") {
  for (const bool causal : {true, false}) {
    for (const bool packed : {true, false}) {
      CAPTURE(causal, packed);
      const std::vector<Tensor> alone = on_first_rank(1, {causal, true, packed, 1});
      const std::vector<Tensor> sliced = on_first_rank(1, {causal, true, packed, 4});
      for (const int ranks : {2, 4}) {
        const std::vector<Tensor> shared = on_first_rank(ranks, {causal, true, packed, 4});
        const std::vector<Tensor> by_ranks = on_first_rank(ranks, {causal, false, packed, 0});
        REQUIRE(shared.size() == alone.size());
        for (size_t i = 0; i < alone.size(); ++i) {
          CAPTURE(ranks, i);
          CHECK(equal(shared[i], sliced[i]));
          // sums of at most 64 products of float32 in another order, of values below 4
          CHECK(amax(abs(shared[i] - alone[i])).item() < 1e-5);
          CHECK(by_ranks[i].numel() == alone[i].numel());
        }
      }
    }
  }
}

TEST_CASE("positions may come first where there are as many slices as ranks", "[context]") {
  const std::vector<Tensor> alone = on_first_rank(1, {true, false, true, 1});
  for (const int ranks : {2, 4}) {
    const std::vector<Tensor> shared = on_first_rank(ranks, {true, false, true, 0});
    for (size_t i = 0; i < alone.size(); ++i) {
      CAPTURE(ranks, i);
      CHECK(amax(abs(shared[i] - alone[i])).item() < 1e-5);  // as above
    }
  }
}

TEST_CASE("layers may be cut among ranks beside those that share sequences", "[context][tensor]") {
  const nn::GPTConfig config = {
      .vocab_size = 19, .block_size = 16, .n_layer = 2, .n_head = 4, .n_embd = 16};
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 32; ++i) ids.push_back(i * i % 19);
  const Tensor tokens(Array::from(ids, {2, 16}));
  manual_seed(7);
  nn::GPT whole(config);
  const Tensor expected = whole.loss(tokens, tokens);
  expected.backward();
  for (const bool sequence : {false, true}) {
    CAPTURE(sequence);
    dist::run_ranks(4, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"context", 2}, {"tensor", 2}});
      manual_seed(7);
      nn::GPT model(config);
      dist::tensor_parallel(model, mesh["tensor"], {.sequence = sequence});
      dist::context_parallel(model, mesh["context"]);
      dist::DDP(model, mesh["context"]);
      const Tensor loss = model.loss(tokens, tokens);
      loss.backward();
      // sums of at most 64 products of float32 in another order, of values below 4
      expect(std::abs(loss.item() - expected.item()) < 1e-5, "loss ", loss.item());
      for (const auto& [name, leaf] : model.named_parameters()) {
        const Tensor other = whole.get_parameter(name).grad();
        if (leaf.shape() != other.shape()) continue;  // cut: the norm of all shows it
        expect(amax(abs(leaf.grad() - other)).item() < 1e-5, name);
      }
      const double norm = optim::clip_grad_norm(model.parameters(), 1e9).item();
      const double other = optim::clip_grad_norm(whole.parameters(), 1e9).item();
      expect(std::abs(norm - other) < 1e-5, "norms ", norm, " and ", other);
    });
  }
}

TEST_CASE("stages of a pipeline share sequences with the bits of one stage", "[context]") {
  nn::GPTConfig config = {
      .vocab_size = 19, .block_size = 16, .n_layer = 3, .n_head = 4, .n_embd = 16};
  config.tie_weights = false;
  config.rotary = true;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 64; ++i) ids.push_back(i * i % 19);
  const Tensor tokens(Array::from(ids, {4, 16}));
  const auto train = [&](int stages, int ranks, int micro_batches, Whole& whole,
                         std::vector<double>& numbers) {
    dist::run_ranks(stages * ranks, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"pipe", stages}, {"context", ranks}});
      manual_seed(7);
      const nn::DeviceScope meta(kMeta);
      nn::GPT model(config);
      dist::context_parallel(model, mesh["context"], {.slices = 2});
      dist::Pipeline pipe(model, mesh["pipe"], {.micro_batches = micro_batches});
      dist::fully_shard(model, mesh["context"], {.unit = dist::each<nn::Block>()});
      const auto optimizer = make_method(Method::adamw, pipe.parameters());
      for (int step = 0; step < 2; ++step) {
        const double loss = pipe.step(tokens, tokens);
        const double norm = optim::clip_grad_norm(pipe.parameters(), 0.5).item();
        if (world.rank() == 0) numbers.insert(numbers.end(), {loss, norm});
        optimizer->step();
        optimizer->zero_grad();
      }
      add_state(whole, model, *optimizer);
    });
  };
  for (const int micro_batches : {1, 2}) {
    for (const int ranks : {1, 2}) {
      Whole expected;
      std::vector<double> numbers;
      // several backwards are added up on each rank first, so the ranks' number shows then
      train(1, micro_batches == 1 ? 1 : ranks, micro_batches, expected, numbers);
      CHECK(numbers.size() == 4);
      for (const int stages : {1, 2, 3}) {
        CAPTURE(micro_batches, ranks, stages);
        Whole got;
        std::vector<double> found;
        train(stages, ranks, micro_batches, got, found);
        CHECK(found == numbers);
        CHECK(expected.difference(got) == "");
      }
    }
  }
}

TEST_CASE("what ranks that share sequences cannot do is an error", "[context]") {
  const nn::GPTConfig config = {
      .vocab_size = 19, .block_size = 16, .n_layer = 1, .n_head = 2, .n_embd = 8};
  const auto tokens = [](int64_t length) { return Tensor(Array::zeros({1, length}, kInt64)); };
  const auto with_gpt = [&](nn::GPTConfig changed, const auto& use) {
    return context_error([&](dist::Communicator& world) {
      nn::GPT model(changed);
      dist::context_parallel(model, world);
      use(model);
    });
  };
  CHECK_THAT(with_gpt(config, [&](nn::GPT& m) { m.loss(tokens(6), tokens(6)); }),
             ContainsSubstring("the 6 positions of [1, 6] are no multiple of 4"));
  CHECK_THAT(with_gpt(config, [&](nn::GPT& m) { m.generate(tokens(4)); }),
             ContainsSubstring("generate: ranks share each sequence"));
  nn::GPTConfig dropping = config;
  dropping.dropout = 0.1;
  CHECK_THAT(with_gpt(dropping, [&](nn::GPT& m) { m.loss(tokens(8), tokens(8)); }),
             ContainsSubstring("train with dropout 0"));
  CHECK(with_gpt(dropping, [&](nn::GPT& m) {
          m.eval();
          m.loss(tokens(8), tokens(8));
        }) == "");
  CHECK_THAT(with_gpt(config,
                      [&](nn::GPT& m) {
                        m.to(kFloat16);
                        m.loss(tokens(8), tokens(8));
                      }),
             ContainsSubstring("leave the range of float16"));

  const auto with_attention = [&](const nn::MultiheadAttentionInputs& inputs, double dropout) {
    return context_error([&](dist::Communicator& world) {
      nn::MultiheadAttention attention(8, 2, {.dropout = dropout, .batch_first = true});
      dist::context_parallel(attention, world);
      const Tensor x(noise({1, 4, 8}));
      attention(x, x, x, inputs);
    });
  };
  CHECK_THAT(with_attention({}, 0.0), ContainsSubstring("set need_weights = false"));
  const Tensor mask = zeros({4, 4}, {.dtype = kBool});
  CHECK_THAT(with_attention({.need_weights = false, .attn_mask = mask}, 0.0),
             ContainsSubstring("masks are of whole sequences"));
  CHECK_THAT(with_attention({.need_weights = false}, 0.1), ContainsSubstring("dropout 0.1"));
}

TEST_CASE("what ranks cannot share is an error on all of them before anything changes",
          "[context]") {
  const auto refused = [](int slices, int ranks) {
    return context_error(
        [&](dist::Communicator& world) {
          nn::MultiheadAttention attention(8, 2, {.batch_first = true});
          dist::context_parallel(attention, world, {.slices = slices});
        },
        ranks);
  };
  CHECK_THAT(refused(3, 2), ContainsSubstring("2 ranks do not divide 3 slices"));
  CHECK_THAT(refused(6, 2), ContainsSubstring("6 slices are 3 for each of 2 ranks"));
  CHECK_THAT(context_error([](dist::Communicator& world) {
               nn::Linear linear(2, 2);
               dist::context_parallel(linear, world);
             }),
             ContainsSubstring("Linear has no attention"));
  CHECK_THAT(context_error([](dist::Communicator& world) {
               nn::MultiheadAttention attention(8, 2);
               dist::context_parallel(attention, world, {.slices = 4});
             }),
             ContainsSubstring("set batch_first, or slices to 0"));
  CHECK_THAT(context_error([](dist::Communicator& world) {
               nn::TransformerEncoderLayer layer(8, 2, {.batch_first = true});
               dist::context_parallel(layer, world, {.slices = 4});
             }),
             ContainsSubstring("'linear1.weight' is outside of them"));
  for (const std::string& error : errors_of(2, [](dist::Communicator& world) {
         nn::GPTConfig config = {.vocab_size = 5, .block_size = 4, .n_head = 2, .n_embd = 4};
         config.n_layer = 1 + world.rank();
         nn::GPT model(config);
         dist::context_parallel(model, world);
       })) {
    CHECK_THAT(error, ContainsSubstring("ranks share different modules"));
  }
}

// The examples of the API reference about ranks: each runs on threads, and its comments are
// checked.
#include <mutex>
#include <optional>

#include <support/catch.h>
#include <support/temp_dir.h>

#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

TEST_CASE("example: run_ranks") {
  std::atomic<double> total = 0.0;
  //! [run_ranks]
  dist::run_ranks(4, [&](dist::Communicator& world) {  // four threads, each a rank
    const Array x = Array::full({3}, world.rank() + 1.0);
    world.all_reduce(x);  // 1 + 2 + 3 + 4 on every rank, in place
    if (world.rank() == 0) total = x.to_vector<double>()[0];
  });
  //! [run_ranks]
  CHECK(total == 10.0);
}

TEST_CASE("example: all_gather") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [all_gather]
    const Array mine = Array::full({2}, world.rank());
    const Array all = Array::empty({4});
    world.all_gather(all, mine);  // 0 0 1 1
    const Array part = Array::empty({2});
    world.reduce_scatter(part, all);  // rank 0: 0 0, rank 1: 2 2
    //! [all_gather]
    if (all.to_vector<double>() != std::vector<double>{0, 0, 1, 1}) right = false;
    if (part.to_vector<double>()[0] != 2.0 * world.rank()) right = false;
  });
  CHECK(right);
}

TEST_CASE("example: async") {
  std::atomic<double> sum = 0.0;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [async]
    const Array x = Array::ones({1024});
    dist::Work work = world.all_reduce(x, {.op = dist::ReduceOp::mean, .async = true});
    // compute something that does not need x
    work.wait();
    //! [async]
    if (world.rank() == 0) sum = x.to_vector<double>()[0];
  });
  CHECK(sum == 1.0);
}

TEST_CASE("example: set_reshard_after_forward") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    nn::Sequential model{nn::Linear(2, 4), nn::Linear(4, 2), nn::Linear(2, 1)};
    //! [set_reshard_after_forward]
    const auto fsdp = dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>()});
    fsdp.set_reshard_after_forward(false, "1");  // this unit is gathered once a step
    //! [set_reshard_after_forward]
    int times = 0;
    fsdp.on_event([&](const dist::Event& event) {
      if (event.unit == "1" && event.kind == dist::Event::Kind::gather) ++times;
    });
    model(ones({3, 2})).sum().backward();
    if (times != 1) right = false;
  });
  CHECK(right);
}

TEST_CASE("example: set_reshard_after_backward") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    nn::Sequential model{nn::Linear(2, 4), nn::Linear(4, 2)};
    int times = 0;
    const auto fsdp = dist::fully_shard(
        model, world, {.unit = dist::each<nn::Linear>(), .reshard_after_forward = false});
    fsdp.on_event([&](const dist::Event& event) {
      if (event.kind == dist::Event::Kind::gather) ++times;
    });
    //! [set_reshard_after_backward]
    for (int micro = 0; micro < 4; ++micro) {
      fsdp.set_reshard_after_backward(micro + 1 == 4);  // all four gather once
      fsdp.set_requires_gradient_sync(micro + 1 == 4);  // and average once
      model(ones({3, 2})).sum().backward();
    }
    //! [set_reshard_after_backward]
    if (times != 2) right = false;
  });
  CHECK(right);
}

TEST_CASE("example: fully_shard_list") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    nn::GPT model({.vocab_size = 11, .block_size = 6, .n_layer = 2, .n_head = 2, .n_embd = 8});
    //! [fully_shard_list]
    for (size_t i = 0; i < model.transformer.h.size(); ++i) {
      dist::fully_shard(model.transformer.h[i], world);
    }
    dist::fully_shard({model.transformer.wte, model.lm_head}, world);  // whose weight is one
    const auto fsdp = dist::fully_shard(model, world);
    //! [fully_shard_list]
    bool found = false;
    for (const dist::UnitInfo& unit : fsdp.units()) {
      found = found || unit.name == "transformer.wte, lm_head";
    }
    right = right && found;
  });
  CHECK(right);
}

TEST_CASE("example: set_modules_to_forward_prefetch") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    nn::Sequential model{nn::Linear(2, 4), nn::Linear(4, 4), nn::Linear(4, 2)};
    const auto fsdp = dist::fully_shard(model, world, {.unit = dist::each<nn::Linear>()});
    std::string seen;
    fsdp.on_event([&](const dist::Event& event) {
      if (event.kind == dist::Event::Kind::gather) seen += "gather " + event.unit + " ";
      if (event.kind == dist::Event::Kind::use) seen += "use " + event.unit + " ";
    });
    //! [set_modules_to_forward_prefetch]
    fsdp.set_modules_to_forward_prefetch("0", {"1", "2"});   // both are on their way at once,
    fsdp.set_modules_to_backward_prefetch("2", {"1", "0"});  // in the first step, too
    //! [set_modules_to_forward_prefetch]
    const Tensor loss = model(ones({3, 2})).sum();
    right = right && seen == "gather 0 use 0 gather 1 gather 2 use 1 use 2 ";
    seen.clear();
    loss.backward();
    right = right && seen == "gather 2 use 2 gather 1 gather 0 use 1 use 0 ";
    bool refused = false;
    try {
      fsdp.set_modules_to_forward_prefetch("0", {"7"});
    } catch (const Error&) {
      refused = true;
    }
    right = right && refused;
  });
  CHECK(right);
}

TEST_CASE("example: register_comm_hook") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    manual_seed(1);
    nn::Linear model(8, 2);
    const dist::DDP ddp(model, world);
    //! [register_comm_hook]
    // [snippet: hook]
    // Gradients rounded to bfloat16 on their way, and float32 sums of them.
    ddp.register_comm_hook(
        {"rounded", [](const dist::GradBucket& bucket) {
           const Array mine = bucket.buffer.to(kBFloat16);
           const Array all = Array::empty({bucket.comm.size(), mine.numel()}, kBFloat16);
           return dist::Future(bucket.comm.all_gather(all, mine, {.async = true}))
               .then([bucket, mine, all] {
                 const Tensor total = sum(Tensor(all).to(kFloat32), {0});
                 Tensor(bucket.buffer).copy_(total / bucket.divide_by);
               });
         }});
    // [end]
    //! [register_comm_hook]
    const double x = world.rank() + 1.0;
    sum(model(full({1, 8}, x))).backward();
    for (const float g : model.weight.grad().array().to_vector<float>()) {
      if (g != 1.5f) right = false;
    }
  });
  CHECK(right);
}

TEST_CASE("example: send") {
  std::atomic<double> got = 0.0;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [send]
    const Array x = Array::full({8}, 7.0);
    if (world.rank() == 0) world.send(x, 1);
    if (world.rank() == 1) world.recv(x, 0);
    //! [send]
    if (world.rank() == 1) got = x.to_vector<double>()[0];
  });
  CHECK(got == 7.0);
}

TEST_CASE("example: Mesh") {
  std::atomic<bool> right = true;
  dist::run_ranks(4, [&](dist::Communicator& world) {
    //! [Mesh]
    const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
    const dist::Communicator& shard = mesh["shard"];  // ranks 0 1, and 2 3
    const int row = mesh.coordinate("replicate");     // 0 on ranks 0 1, 1 on ranks 2 3
    //! [Mesh]
    if (shard.size() != 2 || row != world.rank() / 2) right = false;
  });
  CHECK(right);
}

TEST_CASE("example: declare") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [declare]
    const double momentum = 0.9;
    world.declare("momentum " + std::to_string(momentum));
    world.barrier();  // an Error on both ranks if the other one has another momentum
    //! [declare]
    if (world.traffic().calls() != 1) right = false;
  });
  CHECK(right);
}

TEST_CASE("example: DDP") {
  std::atomic<bool> right = true;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [DDP]
    nn::Linear model(4, 1);
    dist::DDP ddp(model, world);  // rank 0's first values go to all
    optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
    const Tensor batch = randn({8, 4});       // each rank has its own
    model(batch).square().mean().backward();  // gradients are averaged meanwhile
    adamw.step();                             // so all ranks make the same step
    //! [DDP]
    if (!model.weight.grad().defined()) right = false;
  });
  CHECK(right);
}

TEST_CASE("example: ZeRO") {
  std::atomic<int64_t> held = 0;
  dist::run_ranks(4, [&](dist::Communicator& world) {
    //! [ZeRO]
    nn::Linear model(64, 64, {.bias = false});
    dist::ZeRO zero(model, world, {.stage = 2});           // states and gradients are divided
    optim::AdamW adamw(model.parameters(), {.lr = 1e-3});  // of a quarter of the elements a rank
    model(randn({8, 64})).square().mean().backward();
    adamw.step();
    //! [ZeRO]
    if (world.rank() == 0) held = model.parameters()[0].numel();
  });
  CHECK(held == 64 * 64 / 4);
}

TEST_CASE("example: fully_shard") {
  std::atomic<double> norm = 0.0;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [fully_shard]
    std::optional<nn::DeviceScope> meta(kMeta);  // no rank ever holds the whole model
    nn::GPT model({.vocab_size = 50, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32});
    meta.reset();
    dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
    optim::AdamW adamw(model.parameters(), {.lr = 3e-4});
    const Tensor tokens = randint(0, 50, {4, 16});
    model.loss(tokens, tokens).backward();
    const Tensor total = optim::clip_grad_norm(model.parameters(), 1.0);  // of the whole model
    adamw.step();
    //! [fully_shard]
    if (world.rank() == 0) norm = total.item();
  });
  CHECK(norm > 0.0);
}

TEST_CASE("example: Pipeline") {
  std::atomic<double> loss = 0.0;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [Pipeline]
    nn::GPT model({.vocab_size = 50,
                   .block_size = 16,
                   .n_layer = 2,
                   .n_head = 2,
                   .n_embd = 32,
                   .tie_weights = false});
    dist::Pipeline pipe(model, world, {.micro_batches = 4});  // 1F1B, two blocks' ends a rank
    optim::AdamW adamw(pipe.parameters(), {.lr = 3e-4});      // those of this rank's stage
    const Tensor tokens = randint(0, 50, {8, 16});
    const double mean_loss = pipe.step(tokens, tokens);  // forward and backward
    adamw.step();
    //! [Pipeline]
    if (world.rank() == 0) loss = mean_loss;
  });
  CHECK(loss > 3.0);  // about log 50
}

TEST_CASE("example: tensor_parallel") {
  std::atomic<int64_t> rows = 0;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [tensor_parallel]
    nn::GPT model({.vocab_size = 50, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32});
    dist::tensor_parallel(model, world);  // heads, feed-forward parts and the vocabulary are cut
    const Tensor tokens = randint(0, 50, {4, 16});  // the same on both ranks
    model.loss(tokens, tokens).backward();
    //! [tensor_parallel]
    if (world.rank() == 0) rows = model.transformer.h[0].mlp.up.weight.numel();
  });
  CHECK(rows == 4 * 32 * 32 / 2);
}

TEST_CASE("example: check_parallel_form") {
  std::vector<std::string> ways;
  //! [check_parallel_form]
  const auto make = [] {
    return std::make_unique<nn::GPT>(
        nn::GPTConfig{.vocab_size = 50, .block_size = 16, .n_layer = 2, .n_head = 2, .n_embd = 32});
  };
  const Tensor tokens = randint(0, 50, {2, 16});
  for (const auto& [way, refused] : dist::check_parallel_form(make, tokens)) {
    ways.push_back(way);  // it has run, unless `refused` says why not
    CHECK(refused == "");
  }
  //! [check_parallel_form]
  CHECK(ways == std::vector<std::string>{"tensor_parallel", "tensor_parallel with .sequence",
                                         "context_parallel"});
}

TEST_CASE("example: simulate_ranks") {
  int64_t sent = 0;
  //! [simulate_ranks]
  const nn::DeviceScope meta(kMeta);
  dist::simulate_ranks(1024,
                       [&](dist::Communicator& world) {  // the real code on shapes alone
                         nn::Linear model(4096, 4096, {.bias = false});
                         dist::fully_shard(model, world);
                         model(Tensor(Array::empty({1, 4096}, kFloat32, kMeta))).sum().backward();
                         sent = world.traffic().bytes();
                       },
                       {0});  // of 1024 ranks the first
  //! [simulate_ranks]
  CHECK(sent > 0);
}

TEST_CASE("example: dist::Checkpointer") {
  const hero_test::TempDir folder;
  const std::string run = folder / "run";
  std::atomic<int64_t> resumed = 0;
  //! [dist_Checkpointer]
  const auto train = [&](dist::Communicator& world) {
    nn::Linear model(8, 8);
    dist::fully_shard(model, world);
    dist::Checkpointer checkpoint(run, world);
    checkpoint.track("model", model);
    const int64_t step = checkpoint.resume().value_or(0);
    checkpoint.save(step + 1);
    if (world.rank() == 0) resumed = step;
  };
  dist::run_ranks(4, train);
  dist::run_ranks(2, train);  // goes on from step 1, on another number of ranks
  //! [dist_Checkpointer]
  CHECK(resumed == 1);
}

TEST_CASE("example: gather_metrics") {
  double loss = 0.0;
  dist::run_ranks(2, [&](dist::Communicator& world) {
    //! [gather_metrics]
    // of 10 samples here, 30 there: each counts alike
    const double mine = world.rank() == 0 ? 1.0 : 2.0;
    const auto all =
        dist::gather_metrics(world, {{"loss", mine}}, {.weight = world.rank() == 0 ? 10.0 : 30.0});
    if (world.rank() == 0) loss = all[0].mean;  // (10 x 1 + 30 x 2) / 40
    //! [gather_metrics]
  });
  CHECK(loss == 1.75);
}

TEST_CASE("example: gather_texts") {
  std::atomic<bool> right = true;
  dist::run_ranks(3, [&](dist::Communicator& world) {
    //! [gather_texts]
    const std::string mine = world.rank() == 1 ? "" : "rank " + std::to_string(world.rank());
    const auto all = dist::gather_texts(world, mine);  // "rank 0", "", "rank 2" on every rank
    //! [gather_texts]
    if (all != std::vector<std::string>{"rank 0", "", "rank 2"}) right = false;
    //! [broadcast_text]
    const std::string config = world.rank() == 2 ? R"({"lr": 0.1})" : "";
    const std::string text = dist::broadcast_text(world, config, 2);  // that of rank 2
    //! [broadcast_text]
    if (text != R"({"lr": 0.1})" || !dist::broadcast_text(world, "").empty()) right = false;
    if (dist::gather_texts(world, std::string(70000, 'a'))[2].size() != 70000) right = false;
  });
  CHECK(right);
  CHECK_THROWS_WITH(dist::run_ranks(2, [](auto& world) { dist::broadcast_text(world, "", 2); }),
                    Catch::Matchers::ContainsSubstring("the root 2 is no rank of a group of 2"));
}

}  // namespace

TEST_CASE("example: average_parameters") {
  std::atomic<bool> right = true;
  dist::run_ranks(4, [&](dist::Communicator& world) {
    const dist::Mesh mesh(world, {{"hosts", 2}, {"host", 2}});
    //! [average_parameters]
    const Tensor x(Array::full({2}, world.rank()), true);
    dist::average_parameters({x}, mesh["hosts"]);  // 1, 2, 1, 2 on the four ranks
    //! [average_parameters]
    if (x.sum().item() != 2.0 * (1 + world.rank() % 2)) right = false;
  });
  CHECK(right);
}

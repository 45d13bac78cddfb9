// What is drawn where ranks compute one model together: masks of dropout and other random numbers.
#include <functional>
#include <string>
#include <vector>

#include "dist/parallel/tensor.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Draw = std::function<Tensor(const Tensor&)>;

// Random operations before the first layer, between the two that are cut, and after the last.
struct Noisy : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 8, 16);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 16, 8);
  Draw before, between, after;
  Tensor forward(const Tensor& x) override {
    Tensor h = fc1(before ? before(x) : x);
    h = fc2(between ? between(tanh(h)) : tanh(h));
    return after ? after(h) : h;
  }
};

const dist::TensorPlan kPlan = {{"fc1", dist::Cut::colwise}, {"fc2", dist::Cut::rowwise}};

std::vector<std::pair<const char*, Draw>> draws() {
  return {
      {"dropout", [](const Tensor& x) { return dropout(x, 0.5); }},
      {"alpha_dropout", [](const Tensor& x) { return alpha_dropout(x, 0.5, true); }},
      {"dropout1d", [](const Tensor& x) { return dropout1d(x, 0.5); }},
      {"feature_alpha_dropout",
       [](const Tensor& x) { return feature_alpha_dropout(x, 0.5, true); }},
      {"rrelu", [](const Tensor& x) { return rrelu(x, 0.1, 0.3, true); }},
      {"gumbel_softmax", [](const Tensor& x) { return gumbel_softmax(x); }},
      {"rand_like", [](const Tensor& x) { return x * rand_like(x.detach()); }},
      {"a Dropout",
       [layer = std::make_shared<nn::Dropout>(0.5)](const Tensor& x) { return (*layer)(x); }},
  };
}

// The errors of ranks that take three steps of SGD with this module.
std::vector<std::string> errors_with(int ranks, int slices, bool own_seeds,
                                     const std::function<void(Noisy&)>& make) {
  return errors_of(ranks, [&](dist::Communicator& world) {
    manual_seed(3);
    Noisy model;
    make(model);
    dist::tensor_parallel(model, world, {.plan = kPlan, .slices = slices});
    if (own_seeds) manual_seed(5 + static_cast<uint64_t>(world.rank()));
    optim::SGD sgd(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      sum(square(model(Tensor(noise({3, 4, 8}))))).backward();
      sgd.step();
      sgd.zero_grad();
    }
  });
}

}  // namespace

TEST_CASE("ranks of a tensor axis that draw other numbers are told so", "[tensor]") {
  for (const auto& [name, draw] : draws()) {
    for (const bool first : {true, false}) {
      CAPTURE(name, first);
      const auto make = [&draw = draw, first](Noisy& model) {
        (first ? model.before : model.after) = draw;
      };
      for (const std::string& error : errors_with(2, 0, false, make)) CHECK(error == "");
      for (const std::string& error : errors_with(2, 0, true, make)) {
        CHECK_THAT(error, ContainsSubstring("of seed 5 in a module that tensor_parallel cut") &&
                              ContainsSubstring("of seed 6") &&
                              ContainsSubstring("ranks need one seed along its axis"));
      }
    }
  }
}

TEST_CASE("ranks of a tensor axis may have seeds of their own where nothing is drawn", "[tensor]") {
  for (const std::string& error : errors_with(2, 0, true, [](Noisy&) {})) CHECK(error == "");
  for (const std::string& error : errors_with(2, 0, true, [](Noisy& model) {
         model.before = [](const Tensor& x) { return dropout(x, 0.5, false); };
       })) {
    CHECK(error == "");
  }
}

TEST_CASE("what is drawn between layers that are cut is an error on any number of ranks",
          "[tensor]") {
  for (const auto& [name, draw] : draws()) {
    for (const auto& [ranks, slices] : {std::pair(1, 2), std::pair(2, 2), std::pair(2, 4)}) {
      CAPTURE(name, ranks, slices);
      const auto make = [&draw = draw](Noisy& model) { model.between = draw; };
      for (const std::string& error : errors_with(ranks, slices, false, make)) {
        CHECK_THAT(error, ContainsSubstring("tensor_parallel: random numbers are drawn between "
                                            "'fc1' and 'fc2', where each rank has a part"));
      }
    }
  }
  for (const std::string& error : errors_with(1, 1, false, [](Noisy& model) {
         model.between = [](const Tensor& x) { return dropout(x, 0.5); };
       })) {
    CHECK(error == "");  // one slice is the whole
  }
}

TEST_CASE("dropout around layers that are cut has the bits of one rank, run again too",
          "[tensor]") {
  for (const bool again : {false, true}) {
    const auto run = [again](int ranks) {
      Whole whole;
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        manual_seed(3);
        Noisy model;
        model.before = model.after = [](const Tensor& x) { return dropout(x, 0.5); };
        dist::tensor_parallel(model, world, {.plan = kPlan, .slices = 4});
        optim::SGD sgd(model.parameters(), {.lr = 0.1});
        for (int step = 0; step < 3; ++step) {
          const auto forward = [&](const Tensor& x) { return model(x); };
          const Tensor x = Tensor(noise({3, 8})).requires_grad_();
          sum(square(again ? checkpoint(forward, x) : forward(x))).backward();
          sgd.step();
          sgd.zero_grad();
        }
        add_state(whole, model, sgd);
      });
      return whole.sha256();
    };
    CHECK(run(1) == run(2));
    CHECK(run(1) == run(4));
  }
}

TEST_CASE("a GPT with dropout of residuals: one seed along the tensor axis, whole sequences",
          "[tensor]") {
  struct Row {
    bool sequence, own_seeds;
    const char* error;
  };
  for (const Row& row : {Row{false, false, ""}, Row{false, true, "ranks need one seed along"},
                         Row{true, false, "random numbers are drawn between "}}) {
    CAPTURE(row.sequence, row.own_seeds);
    const auto errors = errors_of(4, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
      manual_seed(1);
      nn::Sequential model{nn::FeedForward(nn::GPTConfig{.n_embd = 8, .dropout = 0.5}),
                           nn::Linear(8, 8)};
      nn::GPTConfig config = tensor_gpt();
      const auto gpt = made_gpt(config, false);
      if (row.sequence) {  // attention would refuse the rate, so it comes from outside
        gpt->transformer.h[0].norm_2.register_forward_pre_hook(
            [](nn::Module&, const nn::Tensors& in) { return nn::Tensors{dropout(in[0], 0.5)}; });
        dist::tensor_parallel(*gpt, mesh["tensor"], {.sequence = true});
        gpt->loss(gpt_labels(config, 0, 0), gpt_labels(config, 1, 0)).backward();
        return;
      }
      dist::tensor_parallel(model, mesh["tensor"]);
      const dist::DDP ddp(model, mesh["data"]);
      if (row.own_seeds) manual_seed(static_cast<uint64_t>(world.rank()));
      for (int step = 0; step < 3; ++step) {
        sum(square(model(Tensor(noise({3, 8}))))).backward();
        model.zero_grad();
      }
    });
    int told = 0;
    for (const std::string& error : errors) {
      if (error.empty() == (*row.error == '\0')) ++told;
      if (!error.empty()) CHECK_THAT(error, ContainsSubstring(row.error));
    }
    CHECK(told >= 2);  // ranks of another pair may be cut off first
  }
}

TEST_CASE("ranks that share a sequence are told of random numbers at their own positions",
          "[tensor]") {
  struct Reader : nn::Module {
    nn::MultiheadAttention& attention = add<nn::MultiheadAttention>(
        "attention", 8, 2, nn::MultiheadAttentionOptions{.batch_first = true});
    Draw draw;
    Tensor forward(const Tensor& x) override {
      return draw(attention(x, x, x, {.need_weights = false}).output);
    }
  };
  for (const auto& [name, draw] : draws()) {
    for (const bool training : {true, false}) {
      if (!training && std::string(name) != "a Dropout") continue;
      CAPTURE(name, training);
      const auto errors = errors_of(2, [&draw = draw, training](dist::Communicator& world) {
        manual_seed(1);
        Reader model;
        model.draw = draw;
        if (!training) model.draw = [](const Tensor& x) { return dropout(x, 0.5, false); };
        model.train(training);
        const auto context = dist::context_parallel(model, world);
        sum(model(context.take(Tensor(noise({2, 8, 8}))))).backward();
      });
      for (const std::string& error : errors) {
        if (!training) CHECK(error == "");
        if (training) CHECK_THAT(error, ContainsSubstring("context_parallel: the forward of"));
      }
    }
  }
}

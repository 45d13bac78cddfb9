// Several forwards before their backwards, as pipelines, adversarial losses and gradient caches do.
#include <set>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

namespace {

// What is gathered at each event, beside the root's unit.
class Gathered {
 public:
  void see(const dist::Event& event) {
    if (event.unit == "root") return;
    if (event.kind == dist::Event::Kind::gather) now_.insert(event.unit);
    if (event.kind == dist::Event::Kind::free) now_.erase(event.unit);
    most_ = std::max(most_, now_.size());
  }
  size_t most() const { return most_; }
  bool none() const { return now_.empty(); }

 private:
  std::set<std::string> now_;
  size_t most_ = 0;
};

// Two steps of m micro-batches: all forwards and then all backwards, the last first, or each
// backward after its forward in the same order of backwards.
void train_passes(ShardingStrategy strategy, Subject subject, int m, bool apart, Whole& whole) {
  dist::run_ranks(3, [&](dist::Communicator& world) {
    const auto model = make_subject(subject);
    climb(strategy, subject, *model, world);
    const auto adamw = make_method(Method::adamw, model->parameters());
    const auto loss = [&](int step, int i) {
      return subject_loss(subject, *model, m * step + i, world.rank());
    };
    for (int step = 0; step < 2; ++step) {
      std::vector<Tensor> losses;
      for (int i = 0; apart && i < m; ++i) losses.push_back(loss(step, i));
      for (int i = m - 1; i >= 0; --i) {
        (apart ? losses[static_cast<size_t>(i)] : loss(step, i)).backward();
      }
      finish_step(*model, *adamw, 0.0);
    }
    add_state(whole, *model, *adamw);
  });
}

}  // namespace

TEST_CASE("forwards before their backwards give the bits of each backward after its forward") {
  for (const Subject subject : {Subject::mlp, Subject::odd, Subject::gpt}) {
    for (const ShardingStrategy strategy : kSharding) {
      for (int m = 2; m <= 4; ++m) {
        CAPTURE(name(strategy), m);
        Whole expected, got;
        train_passes(strategy, subject, m, false, expected);
        train_passes(strategy, subject, m, true, got);
        CHECK(expected.size() >= 4);
        CHECK(expected.difference(got) == "");
      }
    }
  }
}

TEST_CASE("of m forwards and m backwards each keeps two units and the root gathered at most") {
  for (int m = 1; m <= 4; ++m) {
    dist::run_ranks(2, [m](dist::Communicator& world) {
      manual_seed(7);
      nn::GPTConfig config = tiny_gpt();
      config.n_layer = 5;
      nn::GPT model(config);
      const auto fsdp = dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
      Gathered gathered;
      fsdp.on_event([&](const dist::Event& event) { gathered.see(event); });
      for (int step = 0; step < 3; ++step) {
        std::vector<Tensor> losses;
        for (int i = 0; i < m; ++i) {
          losses.push_back(subject_loss(Subject::gpt, model, m * step + i, world.rank()));
        }
        for (const Tensor& loss : losses) loss.backward();
        expect(gathered.none(), "everything is freed after a step");
      }
      expect(gathered.most() == 2, "gathered at most: ", gathered.most());
    });
  }
}

TEST_CASE("one backward of two forwards' losses keeps what both need") {
  const auto both = [](nn::Module& model, int step, int rank) {
    const Tensor first = subject_loss(Subject::odd, model, 2 * step, rank);
    const Tensor second = subject_loss(Subject::odd, model, 2 * step + 1, rank);
    return first + second;
  };
  Whole expected, got;
  const auto alone = make_subject(Subject::odd);
  const auto method = make_method(Method::sgd, alone->parameters());
  optim::Accumulator gradients(alone->parameters());
  for (int step = 0; step < 2; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      both(*alone, step, rank).backward();
      gradients.add();
    }
    gradients.mean();
    finish_step(*alone, *method, 0.0);
  }
  add_state(expected, *alone, *method);
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const auto model = make_subject(Subject::odd);
    climb(ShardingStrategy::fsdp, Subject::odd, *model, world);
    const auto sgd = make_method(Method::sgd, model->parameters());
    for (int step = 0; step < 2; ++step) {
      both(*model, step, world.rank()).backward();
      finish_step(*model, *sgd, 0.0);
    }
    add_state(got, *model, *sgd);
  });
  CHECK(expected.size() >= 4);
  CHECK(expected.difference(got) == "");
}

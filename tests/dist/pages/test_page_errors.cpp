// The errors on docs/errors.md: each is what the library says, and the page has each of these.
// Those of its last table depend on the machine; docs/check_errors compares them with the sources.
#include <ctime>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace errors_page {

struct MLP : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 784, 10);
  Tensor forward(const Tensor& x) override { return fc1(x); }
};

// A layer that is a member but was never registered.
struct Unregistered : nn::Module {
  nn::Linear fc1 = nn::Linear(784, 10);
  Tensor forward(const Tensor& x) override { return fc1(x); }
};

struct HalfUsed : nn::Module {
  nn::Linear& a = add<nn::Linear>("a", 3, 3);
  nn::Linear& b = add<nn::Linear>("b", 3, 3);
  Tensor forward(const Tensor& x) override { return a(x); }
};

struct WithoutForward : nn::Module {
  nn::Linear& a = add<nn::Linear>("a", 3, 3);
};

using Mistake = std::function<void()>;

Mistake on_two_ranks(const dist::RankProgram& mistake, double timeout = 600.0) {
  return [mistake, timeout] {
    dist::run_ranks(2, mistake, {.timeout = timeout, .timeout_join = 600.0});
  };
}

Tensor leaf() { return ones({3}).requires_grad_(); }
Array four() { return Array::full({4}, 1.0F, kFloat32); }

// With `folder` in place of a folder that is not there, and of one that is this run's.
std::vector<Mistake> mistakes_of_one_process(const std::string& folder) {
  return {
      [] {
        matmul(ones({2, 3}), ones({4, 5}));
      },
      [] {
        ones({2, 3}) + ones({4});
      },
      [] {
        MLP()(ones({64, 28, 28}));
      },
      [] {
        MLP()(ones({64, 784}, kInt64));
      },
      [] {
        MLP()(ones({64, 784}, kFloat64));
      },
      [] {
        cross_entropy(ones({4, 10}), ones({4}));
      },
      [] {
        cross_entropy(ones({4, 10}), full({4}, 10));
      },
      [] {
        mse_loss(ones({4, 1}), ones({4}));
      },
      [] { (void)ones({3}).item(); },
      [] {
        ones({2, 3}).t().view({6});
      },
      [] {
        ones({2}, {.device = {DeviceType::cuda, 0}});
      },
      [] { ones({2}, {.device = kMeta}) + ones({2}); },
      [] { (leaf() * 2).backward(); },
      [] { ones({3}).sum().backward(); },
      [] {
        const Tensor x = leaf(), y = (x * x).sum();
        y.backward();
        y.backward();
      },
      [] { leaf() += 1; },
      [] {
        const Tensor y = exp(leaf());
        y += 1;
        y.sum().backward();
      },
      [] { (void)ones({3}, kInt64).requires_grad_(); },
      [] {
        const Tensor x = zeros({1}).requires_grad_();
        nn::finite_backward(3, [&] { return log(x - 1).sum(); });
      },
      [] { optim::SGD(Unregistered().parameters(), {.lr = 0.1}); },
      [] { WithoutForward()(ones({3})); },
      [folder] { MLP().load(folder + "/none.safetensors"); },
      [folder] {
        HalfUsed().save(folder + "/half.safetensors");
        MLP().load(folder + "/half.safetensors");
      },
      [folder] { nn::data::FashionMNIST({.train = true, .root = folder + "/fashion"}); },
      [folder] {
        MLP model;
        nn::Checkpointer first(folder + "/run");
        first.track("model", model);
        first.save(3);
        nn::Checkpointer second(folder + "/run");
        second.track("model", model);
        second.resume(nn::Resume::no);
      },
  };
}

std::vector<Mistake> mistakes_of_ranks() {
  return {
      on_two_ranks([](auto& world) {
        HalfUsed model;
        const dist::DDP ddp(model, world);
        sum(model(ones({2, 3}))).backward();
      }),
      on_two_ranks([](auto& world) {
        nn::Linear model(3, 3 + world.rank());
        const dist::DDP ddp(model, world);
      }),
      on_two_ranks([](auto& world) {
        const Array x = four();
        world.rank() == 0 ? (void)world.all_reduce(x) : (void)world.broadcast(x, 0);
      }),
      on_two_ranks([](auto& world) {
        MLP model;
        const dist::DDP ddp(model, world, {.broadcast_parameters = false});
        optim::SGD sgd(model.parameters(), {.lr = 0.1});
        model(ones({2, 784})).sum().backward();
        if (world.rank() == 0) sgd.step();
        world.all_reduce(four());
      }),
      on_two_ranks([](auto& world) {
        if (world.rank() == 0) world.all_reduce(four());
      }),
      on_two_ranks(
          [](auto& world) {
            world.barrier();
            const timespec late = {.tv_sec = 3, .tv_nsec = 0};
            if (world.rank() == 1) ::nanosleep(&late, nullptr);
            world.all_reduce(four());
          },
          1.0),
      on_two_ranks([](auto& world) {
        MLP model;
        dist::fully_shard(model, world);
        if (world.rank() == 0) model.save("mlp.safetensors");
      }),
      on_two_ranks([](auto& world) {
        MLP model;
        dist::fully_shard(model, world);
        if (world.rank() == 0) model.fc1(ones({2, 784}));
      }),
      on_two_ranks([](auto& world) {
        MLP model;
        dist::fully_shard(model, world);
        optim::LBFGS(model.parameters()).step([] { return ones({}); });
      }),
  };
}

std::string message_of(const Mistake& mistake) {
  try {
    mistake();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The first cell of each row of the tables before the last one, without its backquotes.
std::set<std::string> errors_on_the_page() {
  std::ifstream page(HERO_GOLDEN_DIR "/../../docs/errors.md");
  std::set<std::string> errors;
  for (std::string line; std::getline(page, line);) {
    if (line == "## Memory, disk and launchers") break;
    if (line.starts_with("| `")) errors.insert(line.substr(3, line.find("` |") - 3));
  }
  return errors;
}

std::string with_folder(std::string text, const std::string& folder) {
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at)) {
    text.replace(at, folder.size(), "/data");
  }
  return text;
}

}  // namespace errors_page

TEST_CASE("the errors on the page of errors are what the library says") {
  const hero_test::TempDir dir;
  const std::string folder = dir / "data";
  std::filesystem::create_directory(folder);
  std::vector<errors_page::Mistake> mistakes = errors_page::mistakes_of_one_process(folder);
  for (const errors_page::Mistake& mistake : errors_page::mistakes_of_ranks())
    mistakes.push_back(mistake);
  std::set<std::string> said;
  for (const errors_page::Mistake& mistake : mistakes) {
    said.insert(errors_page::with_folder(errors_page::message_of(mistake), folder));
  }
  const std::set<std::string> page = errors_page::errors_on_the_page();
  for (const std::string& error : said) {
    INFO("not on docs/errors.md: | `" << error << "` |");
    CHECK(page.count(error) == 1);
  }
  for (const std::string& error : page) {
    INFO("nothing provokes what docs/errors.md has: " << error);
    CHECK(said.count(error) == 1);
  }
}

// The program of docs/guides/training.md, its report.
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

void train(const std::string& path) {
  nn::Linear model(8, 1);
  optim::AdamW adamw(model.parameters(), {.lr = 0.01});
  nn::Report report(path, {.title = "A line"});
  report.configure("rate", "0.01");
  for (int step = 1; step <= 100; ++step) {
    const Tensor x = randn({32, 8});
    const Tensor loss = mse_loss(model(x), sum(x, 1, true));
    adamw.zero_grad();
    loss.backward();
    adamw.step();
    report.write(step, {{"train/loss", loss.item()}, {"rate", adamw.lr()}});
  }
  report.finish();
}

TEST_CASE("the report page: a line") {
  const hero_test::TempDir folder;
  train(folder / "run.html");
  const std::string page = hero_test::slurp(folder / "run.html");
  CHECK(page.find("<h1>A line</h1>") != std::string::npos);
  CHECK(page.find(">finished</span>, step 100") != std::string::npos);
}

}  // namespace

// GPT: tokens, warm-up and cosine, validation, sampling, checkpoints; on the King James Bible
#include <cstdio>

#include "support/lessons/language.h"
#include "support/options/device.h"
#include "support/options/gpt_options.h"
#include "support/options/page.h"
#include "support/options/program.h"
#include "support/options/trace.h"
#include "support/pictures/attention.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

using hero::Tensor;
using tutorial::Corpus, tutorial::GPTOptions;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

// [snippet: plan]
struct Plan {
  tutorial::CorpusOptions text;  // vocabulary, characters, block
  int64_t layers, heads, width, batch, steps;
  double lr;
};
constexpr Plan kQuick = {{0, 200'000, 64}, 2, 4, 64, 8, 800, 6e-3};  // characters: seconds
constexpr Plan kFull = {{1024, 0, 64}, 4, 4, 128, 12, 1000, 3e-3};   // byte pairs: half a minute
// [end]

Plan plan_of(const GPTOptions& options) {
  Plan plan = options.quick ? kQuick : kFull;
  plan.text.vocab_size = options.vocab.value_or(plan.text.vocab_size);
  plan.text.block = options.block.value_or(plan.text.block);
  plan.layers = options.layers.value_or(plan.layers);
  plan.width = options.width.value_or(plan.width);
  plan.batch = options.batch.value_or(plan.batch);
  plan.steps = options.steps.value_or(plan.steps);
  plan.lr = options.lr.value_or(plan.lr);
  return plan;
}

// [snippet: loss]
Tensor loss_of(nn::GPT& model, const nn::data::Example& batch) {
  // [B, T] both; a target is the token after
  const auto [tokens, targets] = batch.to(tutorial::device());
  return cross_entropy(flatten(model(tokens), 0, 1), flatten(targets));
}
// [end]

double validation_loss(nn::GPT& model, const nn::data::TokenDataset& text, int64_t batch) {
  constexpr int kBatches = 20;  // always the same ones
  const hero::NoGrad no_grad;
  model.eval();
  double sum = 0.0;
  for (int i = 0; i < kBatches; ++i) sum += loss_of(model, text.random_batch(batch, 0, i)).item();
  model.train();
  return sum / kBatches;
}

// [snippet: optimizer]
// Weight decay is for matrices; biases and norms are left alone.
optim::AdamW make_optimizer(const nn::GPT& model, double lr) {
  std::vector<Tensor> matrices, vectors;
  for (const Tensor& p : model.parameters()) {
    (p.ndim() >= 2 ? matrices : vectors).push_back(p);
  }
  const optim::AdamWOptions decay{.lr = lr, .betas = {0.9, 0.95}, .weight_decay = 0.1};
  const optim::AdamWOptions plain{.lr = lr, .betas = {0.9, 0.95}, .weight_decay = 0.0};
  return optim::AdamW({{matrices, decay}, {vectors, plain}});
}
// [end]

// [snippet: schedule]
// On a straight line up to lr in the first twentieth, then along a cosine down to a tenth of it.
optim::Curve warm_up_and_cosine(double lr, int64_t steps) {
  const int64_t warm = steps / 20 + 1;
  return optim::SequentialLR{
      {optim::LinearLR{.start_factor = 1.0 / static_cast<double>(warm), .total_iters = warm},
       optim::CosineAnnealingLR{.t_max = std::max<int64_t>(1, steps - warm), .eta_min = lr / 10}},
      {warm}};
}
// [end]

void write_samples(nn::GPT& model, const Corpus& corpus, const Tensor& prompt,
                   const GPTOptions& options, nn::Report* report) {
  std::vector<double> temperatures{0.5, 1.0};
  if (options.temperature) temperatures = {*options.temperature};
  // [snippet: sample]
  for (double temperature : temperatures) {
    const Tensor tokens = model.generate(prompt, {.max_new_tokens = options.length.value_or(160),
                                                  .temperature = temperature,
                                                  .top_k = options.top_k.value_or(40),
                                                  .seed = 1});
    const std::string text = corpus.tokenizer->decode(tokens);
    // [end]
    std::printf("\ntemperature %.1f:\n%s\n", temperature, tutorial::moved_in(text).c_str());
    if (report) report->sample("temperature " + tutorial::repr(temperature), text);
  }
}

void configure(nn::Report& report, const Plan& plan, const nn::GPT& model) {
  report.configure("parameters", std::to_string(model.parameter_count()));
  report.configure("layers", std::to_string(plan.layers));
  report.configure("width", std::to_string(plan.width));
  report.configure("heads", std::to_string(plan.heads));
  report.configure("tokens of a step", std::to_string(plan.batch * plan.text.block));
  report.configure("optimizer",
                   "AdamW, warm-up and cosine, highest rate " + tutorial::repr(plan.lr));
  report.configure("steps", std::to_string(plan.steps));
}

int train(const GPTOptions& options) {
  hero::check(!options.resume || !options.run.empty(),
              "--resume: name the run's folder with --run");
  const tutorial::OnDevice device(options.device);
  const Plan plan = plan_of(options);
  const auto seed = static_cast<uint64_t>(options.seed.value_or(1));
  const Corpus corpus = tutorial::king_james_corpus(plan.text);
  // before the training: what cannot be encoded is an error now, not after it
  const Tensor prompt =
      hero::tensor(corpus.tokenizer->encode(options.sample), {.device = tutorial::device()});
  hero::check(prompt.numel() > 0, "--sample: there is no text to continue");
  // [snippet: model]
  hero::manual_seed(seed);
  nn::GPT model({.vocab_size = corpus.tokenizer->vocab_size(),
                 .block_size = plan.text.block,
                 .n_layer = plan.layers,
                 .n_head = plan.heads,
                 .n_embd = plan.width});
  optim::AdamW adamw = make_optimizer(model, plan.lr);
  optim::Schedule schedule(adamw, warm_up_and_cosine(plan.lr, plan.steps));
  // [end]
  std::printf("model: %lld parameters in %lld layers of width %lld\n\n%6s %9s %9s %11s\n",
              static_cast<long long>(model.parameter_count()), static_cast<long long>(plan.layers),
              static_cast<long long>(plan.width), "step", "rate", "training", "validation");

  std::optional<nn::Checkpointer> checkpoint;
  std::optional<nn::MetricsWriter> metrics;
  int64_t step = 0;
  if (!options.run.empty()) {
    checkpoint.emplace(options.run);
    checkpoint->track("model", model);
    checkpoint->track("optimizer", adamw);
    checkpoint->track("schedule", schedule);
    step = checkpoint->resume(options.resume ? nn::Resume::newest : nn::Resume::no).value_or(0);
    metrics.emplace(options.run, nn::MetricsOptions{.resumed_step = step});
  }
  nn::Report* const report = tutorial::page();  // where --report is given
  if (report) configure(*report, plan, model);
  const int64_t every = std::max<int64_t>(1, plan.steps / 10);
  std::optional<nn::StopSignal> stop(std::in_place);
  nn::Progress progress({.total = plan.steps,
                         .start = step,
                         .every = every,
                         .unit = "token",
                         .per_step = static_cast<double>(plan.batch * plan.text.block)});
  tutorial::Curves curves;
  // [snippet: loop]
  while (step < plan.steps && !stop->requested()) {
    adamw.zero_grad();
    const auto batch = corpus.train.random_batch(plan.batch, seed, step);
    const Tensor loss = nn::finite_backward(step, [&] { return loss_of(model, batch); });
    const Tensor norm = optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
    schedule.step();
    ++step;
    // [end]
    const double lr = schedule.value();
    progress.update(step, {{"loss", loss.item()}, {"lr", lr}});
    if (metrics) metrics->write(step, {{"train/loss", loss.item()}, {"train/lr", lr}});
    if (report) {
      report->write(step, {{"train/loss", loss.item()}, {"rate", lr}, {"norm", norm.item()}});
    }
    curves.train_steps.push_back(static_cast<double>(step));
    curves.train.push_back(loss.item());
    if (step % every == 0 || step == plan.steps) {
      const double validation = validation_loss(model, corpus.validation, plan.batch);
      progress.clear();
      std::printf("%6lld %9.5f %9.3f %11.3f\n", static_cast<long long>(step), lr,
                  curves.mean_of_last(every), validation);
      curves.validation_steps.push_back(static_cast<double>(step));
      curves.validation.push_back(validation);
      if (metrics) metrics->write(step, {{"val/loss", validation}});
      if (report) report->write(step, {{"val/loss", validation}});
      if (checkpoint) checkpoint->save(step);
    }
  }
  progress.finish();
  if (stop->requested()) {
    if (checkpoint) checkpoint->save(step);
    return stop->exit_code();
  }
  stop.reset();  // there are no more steps: from here on Ctrl-C ends it at once
  if (!curves.train.empty()) draw_losses(curves, options.out, "08a_gpt");
  tutorial::draw_head(model, *corpus.tokenizer,
                      "In the beginning God created the heaven and the earth.",
                      {.block = 0, .head = 1}, options.out);
  write_samples(model, corpus, prompt, options, report);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  GPTOptions options;
  tutorial::Command command("A GPT trained on the King James Bible.");
  add_options(command, options);
  tutorial::TraceOptions trace;
  tutorial::add_trace(command, trace);
  std::string report;
  tutorial::add_report(command, report);
  const auto run = [&] {
    command.make_out();
    return train(options);
  };
  const char* title = "A GPT on the King James text";
  return command.run(argc, argv, [&] {
    return tutorial::traced(trace, options.device,
                            [&] { return tutorial::reported(report, title, run); });
  });
}

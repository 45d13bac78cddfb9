// A language model learns: a GGUF file or a folder of Hugging Face's transformers is trained on a
// text, or on chats, of which it learns the answers. docs/guides/real_model.md explains it.
//
//   ./finetune --model SmolLM2-135M-Instruct.Q4_1.gguf --chats chats.jsonl --out tuned
//   ./finetune --model Llama-3.2-1B --text book.txt --out tuned --ranks 2
// [snippet: program]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <hero/autograd/autograd.h>
#include <hero/core/gguf.h>
#include <hero/core/io/file.h>
#include <hero/core/safetensors.h>
#include <hero/dist/dist.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

using namespace hero;
using nn::data::BPETokenizer, nn::data::ChatTemplate, nn::data::ChatTokens;

using Options = std::map<std::string, std::string>;

Options read_options(int argc, char** argv) {
  Options options = {{"--model", ""},     {"--text", ""},         {"--chats", ""},
                     {"--out", "tuned"},  {"--template", ""},     {"--lora", "8"},
                     {"--steps", "100"},  {"--batch", "8"},       {"--micro", "1"},
                     {"--length", "256"}, {"--lr", ""},           {"--precision", "bfloat16"},
                     {"--seed", "1"},     {"--save-every", "50"}, {"--sample", ""}};
  for (int i = 1; i < argc; i += 2) {
    check(
        options.contains(argv[i]) && i + 1 < argc,
        "finetune: options are --model PATH; --text FILE or --chats FILE; --out FOLDER, "
        "--template NAME, --lora RANK (0: all weights), --steps N, --batch N (sequences a step), "
        "--micro N (at once on a rank), --length N (tokens of a sequence), --lr RATE, --precision "
        "bfloat16|float32, --seed N, --save-every N, --sample TEXT, and --ranks N");
    options[argv[i]] = argv[i + 1];
  }
  check(!options["--out"].empty(), "finetune: --out names the folder for what is written");
  const bool precise = options["--precision"] == "bfloat16" || options["--precision"] == "float32";
  check(!options["--model"].empty() && options["--text"].empty() != options["--chats"].empty() &&
            precise,
        "finetune: --model, one of --text and --chats, and a --precision of bfloat16 or float32");
  namespace fs = std::filesystem;
  check(
      fs::weakly_canonical(options["--model"]) != fs::weakly_canonical(options["--out"] + "/model"),
      "finetune: --model ", options["--model"],
      " is the folder that this run would write; give another --out");
  return options;
}

int64_t whole(const Options& options, const std::string& name, int64_t least = 1) {
  const int64_t value = std::atoll(options.at(name).c_str());
  check(value >= least && std::to_string(value) == options.at(name), "finetune: ", name, " ",
        options.at(name), " is no whole number from ", least);
  return value;
}

ChatTemplate template_of(const Options& options) {
  const std::string& name = options.at("--template");
  return name.empty() ? ChatTemplate::from_pretrained(options.at("--model"))
                      : ChatTemplate::named(name);
}

double rate_of(const Options& options) {
  const std::string& text = options.at("--lr");
  if (text.empty()) return whole(options, "--lora", 0) > 0 ? 2e-4 : 2e-5;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  check(*end == '\0' && std::isfinite(value) && value > 0, "finetune: --lr ", text,
        " is no number above 0");
  return value;
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

// A run goes on with the options that it began with: others would be another run. The folder is
// this program's, of which rank 0 has the lock, until it ends.
std::shared_ptr<nn::FolderLock> begin_run(dist::Communicator& world, const Options& options,
                                          size_t sequences) {
  const std::string& out = options.at("--out");
  std::shared_ptr<nn::FolderLock> lock;
  if (world.rank() == 0) lock = nn::FolderLock::take("finetune", out, 2.0);
  std::string text;
  for (const char* name : {"--model", "--text", "--chats", "--template", "--lora", "--steps",
                           "--batch", "--length", "--lr", "--precision", "--seed"}) {
    if (!options.at(name).empty()) text += std::string(name) + " " + options.at(name) + " ";
  }
  text += "(" + std::to_string(sequences) + " sequences)";
  const std::string path = out + "/options.txt";
  const std::string begun = path_exists(path) ? read_file_text(path) : text;
  check(begun == text, "finetune: the run in ", out, " began with ", begun, ", and this one has ",
        text, "; give the same options, or another --out");
  world.barrier();
  if (world.rank() > 0) return nullptr;
  make_folders("finetune", out + "/run");
  write_text(path, text);
  return lock;
}

// Tokens and what follows each of them, -100 where the model is not asked.
struct Sequence {
  std::vector<int64_t> tokens, targets;
};

std::vector<Sequence> read_sequences(const Options& options, const BPETokenizer& tokenizer,
                                     bool is_first) {
  const auto length = static_cast<size_t>(whole(options, "--length", 2));
  std::vector<Sequence> sequences;
  if (!options.at("--text").empty()) {
    const auto tokens = tokenizer.encode(read_file_text(options.at("--text")));
    for (size_t at = 0; at + length < tokens.size(); at += length) {
      const auto begin = tokens.begin() + static_cast<int64_t>(at);
      const auto count = static_cast<int64_t>(length);
      sequences.push_back({{begin, begin + count}, {begin + 1, begin + count + 1}});
    }
  } else {
    const ChatTemplate form = template_of(options);
    size_t dropped = 0, cut = 0;
    for (const ChatTokens& all : nn::data::load_chats(options.at("--chats"), form, tokenizer)) {
      const size_t count = std::min(all.tokens.size(), length + 1);
      Sequence one;
      bool any = false;
      for (size_t i = 0; i + 1 < count; ++i) {
        one.tokens.push_back(all.tokens[i]);
        one.targets.push_back(all.answers[i + 1] ? all.tokens[i + 1] : -100);
        any = any || all.answers[i + 1];
      }
      dropped += any ? 0 : 1;
      cut += any && all.tokens.size() > count ? 1 : 0;
      if (any) sequences.push_back(std::move(one));
    }
    if (dropped + cut > 0 && is_first) {
      std::fprintf(stderr,
                   "finetune: of the chats %zu have no answer within %zu tokens and are left out, "
                   "and %zu are cut there; --length takes more\n",
                   dropped, length, cut);
    }
  }
  check(sequences.size() >= 10, "finetune: there are only ", sequences.size(), " sequences of ",
        length, " tokens; give more data, or another --length");
  return sequences;
}

// Sequences as rows of one length; nothing attends to what follows it, and so not to what fills it.
struct Batch {
  Tensor tokens, targets;
  double count;  // of targets
};

Batch batch_of(const std::vector<const Sequence*>& rows) {
  size_t longest = 0;
  for (const Sequence* row : rows) longest = std::max(longest, row->tokens.size());
  std::vector<int64_t> tokens, targets;
  for (const Sequence* row : rows) {
    tokens.insert(tokens.end(), row->tokens.begin(), row->tokens.end());
    tokens.insert(tokens.end(), longest - row->tokens.size(), 0);
    targets.insert(targets.end(), row->targets.begin(), row->targets.end());
    targets.insert(targets.end(), longest - row->targets.size(), -100);
  }
  const auto count = static_cast<int64_t>(rows.size());
  const Tensor y = tensor(targets).reshape({count, -1});
  return {tensor(tokens).reshape({count, -1}), y, sum(y != -100).item()};
}

Tensor loss_of(nn::Llama& model, const Batch& batch, bool half) {
  const Autocast precision({.dtype = kBFloat16, .enabled = half});
  return model.loss(batch.tokens, batch.targets);
}

// The mean over all targets; the ranks take turns, and all compute equally often.
double held_out_loss(dist::Communicator& world, nn::Llama& model,
                     const std::vector<Sequence>& sequences, bool half) {
  const NoGrad no_grad;
  const nn::EvalScope eval;
  const auto ranks = static_cast<size_t>(world.size()), rank = static_cast<size_t>(world.rank());
  double total = 0.0, count = 0.0;
  for (size_t at = 0; at < sequences.size(); at += ranks) {
    const bool counts = at + rank < sequences.size();
    const Batch batch = batch_of({&sequences[counts ? at + rank : at]});
    const double loss = loss_of(model, batch, half).item();
    total += counts ? loss * batch.count : 0.0;
    count += counts ? batch.count : 0.0;
  }
  const auto all = dist::gather_metrics(world, {{"loss", total}, {"count", count}});
  return all[0].mean / all[1].mean;
}

// The adapters in the files that peft reads.
void write_adapters(const std::string& folder, const std::string& base,
                    const nn::StateDict& adapters, const nn::LoRAOptions& lora) {
  make_folders("finetune", folder);
  std::vector<core::NamedArray> arrays;
  for (const auto& [name, array] : adapters) {
    arrays.push_back({"base_model.model." + name + ".weight", array.to(kFloat32)});
  }
  core::save_safetensors(folder + "/adapter_model.safetensors", arrays);
  std::string targets;
  for (const std::string& one : lora.targets)
    targets += (targets.empty() ? "\"" : ", \"") + one + "\"";
  std::string quoted_base;
  for (const char c : base)
    quoted_base += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  write_text(folder + "/adapter_config.json",
             "{\"peft_type\": \"LORA\", \"task_type\": \"CAUSAL_LM\", \"bias\": \"none\", "
             "\"inference_mode\": true, \"base_model_name_or_path\": \"" +
                 quoted_base + "\", \"r\": " + std::to_string(lora.rank) +
                 ", \"lora_alpha\": " + std::to_string(lora.alpha) +
                 ", \"lora_dropout\": 0.0, \"target_modules\": [" + targets + "]}\n");
}

// The template of chats goes with the model.
void keep_template(const std::string& from, const std::string& to) {
  if (is_folder(from)) {
    for (const char* name : {"/chat_template.jinja", "/tokenizer_config.json"}) {
      if (path_exists(from + name)) write_text(to + name, read_file_text(from + name));
    }
  } else if (const auto text = core::GGUFReader(from).text("tokenizer.chat_template")) {
    write_text(to + "/chat_template.jinja", *text);
  }
}

void sample(nn::Llama& model, const Options& options, const BPETokenizer& tokenizer) {
  if (options.at("--sample").empty()) return;
  std::vector<int64_t> prompt = tokenizer.encode(options.at("--sample"));
  std::vector<int64_t> stops = model.config().token_ids.eos;
  if (!options.at("--chats").empty()) {
    const ChatTemplate form = template_of(options);
    const std::vector<nn::data::ChatMessage> question = {{"user", options.at("--sample")}};
    prompt = form.encode(tokenizer, question);
    for (const int64_t token : form.stop_tokens(tokenizer)) stops.push_back(token);
  }
  const auto all = model
                       .generate(tensor(prompt),
                                 {.max_new_tokens = 60, .temperature = 0.0, .stop_tokens = stops})
                       .to_vector<int64_t>();
  std::vector<int64_t> fresh(all.begin() + static_cast<int64_t>(prompt.size()), all.end());
  if (std::ranges::find(stops, fresh.back()) != stops.end()) fresh.pop_back();
  std::printf("%s -> %s\n", options.at("--sample").c_str(), tokenizer.decode(fresh).c_str());
}

// Writes the adapters, and the model with the adapters in its weights; then it speaks.
void finish(nn::Llama& model, const Options& options, const BPETokenizer& tokenizer,
            const nn::LoRAOptions& lora) {
  const std::string& out = options.at("--out");
  if (lora.rank > 0) {
    write_adapters(out + "/adapter", options.at("--model"), nn::lora_state_dict(model.state_dict()),
                   lora);
    nn::merge_lora(model);
    nn::remove_lora(model);
  }
  model.save_pretrained(out + "/model");
  tokenizer.save(out + "/model/tokenizer.json");
  keep_template(options.at("--model"), out + "/model");
  sample(model, options, tokenizer);
}

void train(dist::Communicator& world, int argc, char** argv) {
  const Options options = read_options(argc, argv);
  const std::string &path = options.at("--model"), &out = options.at("--out");
  const int64_t steps = whole(options, "--steps"), rank = whole(options, "--lora", 0);
  const int64_t batch = whole(options, "--batch"), micro = whole(options, "--micro");
  const int64_t save_every = whole(options, "--save-every"), ranks = world.size();
  check(batch % (micro * ranks) == 0, "finetune: a --batch of ", batch, " is no multiple of ",
        micro, " sequences on each of ", ranks, " ranks");
  const double rate = rate_of(options);
  const bool half = options.at("--precision") == "bfloat16";
  manual_seed(static_cast<uint64_t>(whole(options, "--seed")));  // the same order on every rank

  const BPETokenizer tokenizer = BPETokenizer::from_pretrained(path);
  nn::Llama model = nn::Llama::from_pretrained(path);
  check(whole(options, "--length", 2) <= model.context_length(), "finetune: --length ",
        options.at("--length"), ", and the model reads ", model.context_length(), " tokens");
  std::vector<Sequence> sequences = read_sequences(options, tokenizer, world.rank() == 0);
  const auto lock = begin_run(world, options, sequences.size());
  const size_t kept = std::min<size_t>(std::max<size_t>(sequences.size() / 10, 1), 64);
  const std::vector<Sequence> held_out(sequences.end() - static_cast<int64_t>(kept),
                                       sequences.end());
  sequences.resize(sequences.size() - kept);

  const nn::LoRAOptions lora{
      .rank = rank,
      .alpha = 2.0 * static_cast<double>(rank),
      .targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};
  if (rank > 0) nn::add_lora(model, lora);
  if (world.rank() == 0) sample(model, options, tokenizer);
  std::optional<dist::DataParallel> sharded;
  if (ranks > 1) {
    sharded = dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
  }
  const std::vector<Tensor> learning = rank > 0 ? nn::lora_parameters(model) : model.parameters();
  optim::AdamW adamw(learning, {.lr = rate, .weight_decay = rank > 0 ? 0.0 : 0.01});
  optim::Schedule schedule(adamw, optim::CosineAnnealingLR{.t_max = steps});

  dist::Checkpointer checkpoint(out + "/run", world);
  checkpoint.track("model", model);
  checkpoint.track("optimizer", adamw);
  checkpoint.track("schedule", schedule);
  int64_t step = checkpoint.resume().value_or(0);
  if (step == 0) {
    const double loss = held_out_loss(world, model, held_out, half);
    world.out() << "before: held-out loss " << loss << ", perplexity " << std::exp(loss) << "\n";
  }
  nn::StopSignal stop;
  const auto begin = std::chrono::steady_clock::now();
  double tokens = 0.0;
  while (step < steps && !stop.requested(world)) {
    // Sequences in an order that depends on the step alone, so that a run that goes on goes on with
    // the same ones.
    std::vector<Batch> parts;
    for (int64_t i = world.rank() * batch / ranks; i < (world.rank() + 1) * batch / ranks;
         i += micro) {
      std::vector<const Sequence*> rows;
      for (int64_t k = i; k < i + micro; ++k) {
        const uint64_t number = static_cast<uint64_t>(step * batch + k);
        rows.push_back(&sequences[(number * 2654435761u + 12345u) % sequences.size()]);
      }
      parts.push_back(batch_of(rows));
    }
    std::vector<double> targets;
    for (const Batch& part : parts) targets.push_back(part.count);
    const std::vector<double> weights = dist::target_weights(targets, world);
    double loss_sum = 0.0;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (sharded) sharded->set_requires_gradient_sync(i + 1 == parts.size());
      const Tensor loss =
          loss_of(model, parts[i], half) * (weights[i] / static_cast<double>(parts.size()));
      loss.backward();
      loss_sum += loss.item();
      tokens += static_cast<double>(parts[i].tokens.numel()) * static_cast<double>(ranks);
    }
    check(std::isfinite(loss_sum), "finetune: the loss of step ", step + 1, " is ", loss_sum,
          "; begin again with a smaller --lr, in another --out");
    optim::clip_grad_norm(learning, 1.0, {.error_if_nonfinite = true});
    adamw.step();
    adamw.zero_grad();
    schedule.step();
    ++step;
    const auto all = dist::gather_metrics(world, {{"loss", loss_sum}});
    if (step == 1 || step % 10 == 0) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      world.out() << "step " << step << ", loss " << all[0].mean << ", "
                  << static_cast<int64_t>(tokens / passed.count()) << " tokens a second"
                  << std::endl;
    }
    if (step % save_every == 0 || step == steps) checkpoint.save(step);
  }
  if (step < steps) {
    checkpoint.save(step);
    world.out() << "stopped after step " << step << "; the same command goes on from there\n";
    return;
  }
  const double loss = held_out_loss(world, model, held_out, half);
  check(std::isfinite(loss), "finetune: the held-out loss is ", loss, "; take a smaller --lr");
  world.out() << "after: held-out loss " << loss << ", perplexity " << std::exp(loss) << "\n";

  if (!sharded) {
    finish(model, options, tokenizer, lora);
  } else {
    const nn::StateDict state = sharded->full_state_dict();
    if (world.rank() > 0) return;
    nn::Llama whole_model = nn::Llama::from_pretrained(path);
    if (rank > 0) nn::add_lora(whole_model, lora);
    whole_model.load_state_dict(state);
    finish(whole_model, options, tokenizer, lora);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%ld MB at most; the model is in %s/model\n", usage.ru_maxrss / 1000, out.c_str());
}

int main(int argc, char** argv) {
  return dist::launch(argc, argv, [&](auto& world) { train(world, argc, argv); });
}
// [end]

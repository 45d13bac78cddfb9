// A language model speaks: a GGUF file or a folder of Hugging Face's transformers goes on with a
// text, answers a question, or chats, and its words appear as they come. Ctrl-C ends a sentence.
// docs/guides/real_model.md explains it.
//
//   ./generate --model SmolLM2-135M-Instruct.Q4_1.gguf --chat
// [snippet: program]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <hero/autograd/autograd.h>
#include <hero/core/io/file.h>
#include <hero/core/io/printable.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>

using namespace hero;
using nn::data::BPETokenizer, nn::data::ChatMessage, nn::data::ChatTemplate,
    nn::data::SpecialTokens;

constexpr const char* kUsage =
    "generate: options are --model PATH and one of --prompt TEXT, --ask TEXT and --chat; --system "
    "TEXT, --template chatml|llama3|llama3.1|mistral, --weights "
    "file|float32|bfloat16|Q8_0|Q4_0|Q4_1, --tokens N, "
    "--context N, --temperature T, --top-k K, --top-p P, --repetition-penalty R, --seed S";

volatile std::sig_atomic_t interrupted = 0;
void note_interrupt(int) { interrupted = 1; }

using Options = std::map<std::string, std::string>;

Options read_options(int argc, char** argv) {
  Options options = {{"--model", ""},     {"--prompt", ""},   {"--ask", ""},
                     {"--system", ""},    {"--template", ""}, {"--weights", "file"},
                     {"--tokens", "500"}, {"--context", ""},  {"--temperature", "0.7"},
                     {"--top-k", ""},     {"--top-p", "0.9"}, {"--repetition-penalty", "1"},
                     {"--seed", ""},      {"--chat", ""}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool is_flag = name == "--chat";
    check(options.contains(name) && (is_flag || i + 1 < argc), kUsage);
    options[name] = is_flag ? "yes" : argv[++i];
  }
  const int ways = int{!options["--prompt"].empty()} + int{!options["--ask"].empty()} +
                   int{!options["--chat"].empty()};
  check(ways == 1 && !options["--model"].empty(), kUsage);
  return options;
}

double number(const Options& options, const std::string& name) {
  const std::string& text = options.at(name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  check(!text.empty() && *end == '\0' && std::isfinite(value), "generate: ", name, " ", text,
        " is no number");
  return value;
}

int64_t whole(const Options& options, const std::string& name) {
  const int64_t value = std::atoll(options.at(name).c_str());
  check(value > 0 && std::to_string(value) == options.at(name), "generate: ", name, " ",
        options.at(name), " is no whole number above 0");
  return value;
}

void flush_output() {
  check(std::fflush(stdout) == 0 && std::ferror(stdout) == 0,
        "generate: cannot print: standard output is full or closed");
}

// Prints text as it comes. The bytes of a character may come in several tokens; it is printed when
// it is whole. What a terminal would obey, but for new lines and tabs, is shown as an escape.
class Printer {
 public:
  void add(const std::string& bytes) {
    for (const char byte : bytes) {
      if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) flush();  // a character begins
      waiting_ += byte;
      if (waiting_.size() == length()) flush();
    }
    flush_output();
  }
  void flush() {
    const bool moves_on = waiting_ == "\n" || waiting_ == "\t";
    std::fputs((moves_on ? waiting_ : printable(waiting_)).c_str(), stdout);
    waiting_.clear();
  }

 private:
  size_t length() const {  // of the character that waits
    const auto first = static_cast<unsigned char>(waiting_[0]);
    return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  }
  std::string waiting_;
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A model with what it has read, so that the next turn of a chat reads only what is new.
class Speaker {
 public:
  Speaker(nn::Llama& model, const BPETokenizer& tokenizer, int64_t context,
          nn::GenerateOptions options)
      : model_(model),
        tokenizer_(tokenizer),
        context_(context),
        cache_(context),
        options_(std::move(options)) {}

  // Reads these tokens and prints what follows them, behind `begin`; returns it as text.
  std::string speak(const std::vector<int64_t>& tokens, const std::string& begin = "") {
    check(static_cast<int64_t>(tokens.size()) < context_, "generate: ", tokens.size(),
          " tokens leave no room in a context of ", context_, "; give a larger --context");
    interrupted = 0;
    const double start = seconds();
    Tensor logits = read(tokens);
    read_seconds_ += seconds() - start;
    std::string text;
    Printer printer;
    const double begun = seconds();
    for (int64_t i = 0; i < options_.max_new_tokens && interrupted == 0; ++i) {
      const int64_t token =
          nn::next_tokens(logits, {row_}, options_, default_generator()).item<int64_t>();
      if (i == 0) printer.add(begin);
      ++made_tokens_;
      if (std::ranges::find(options_.stop_tokens, token) != options_.stop_tokens.end()) break;
      text += tokenizer_.bytes(token);
      printer.add(tokenizer_.bytes(token));
      if (static_cast<int64_t>(row_.size()) + 1 >= context_) break;  // the context is full
      row_.push_back(token);
      logits = step({token});
    }
    made_seconds_ += seconds() - begun;
    printer.flush();
    std::printf("\n");
    return text;
  }

  void report() const {
    flush_output();
    if (made_tokens_ == 0) return;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::fprintf(
        stderr,
        "[read %lld tokens, %.0f a second; made %lld tokens, %.1f a second; %ld MB at most]\n",
        static_cast<long long>(read_tokens_), static_cast<double>(read_tokens_) / read_seconds_,
        static_cast<long long>(made_tokens_), static_cast<double>(made_tokens_) / made_seconds_,
        usage.ru_maxrss / 1000);
  }

 private:
  // Reads a text whose beginning the cache may have.
  Tensor read(const std::vector<int64_t>& tokens) {
    const bool goes_on =
        row_.size() < tokens.size() && std::equal(row_.begin(), row_.end(), tokens.begin());
    if (!goes_on) {
      cache_.clear();
      row_.clear();
    }
    const std::vector<int64_t> fresh(tokens.begin() + static_cast<int64_t>(row_.size()),
                                     tokens.end());
    row_ = tokens;
    read_tokens_ += static_cast<int64_t>(fresh.size());
    return step(fresh);
  }
  Tensor step(const std::vector<int64_t>& tokens) {
    const auto count = static_cast<int64_t>(tokens.size());
    cache_.begin(count, {count});
    const Tensor logits = model_.next_logits(tensor(tokens).reshape({1, -1}), cache_);
    cache_.end();
    return logits;
  }

  nn::Llama& model_;
  const BPETokenizer& tokenizer_;
  int64_t context_;
  nn::KeyValueCache cache_;
  nn::GenerateOptions options_;
  std::vector<int64_t> row_;  // what the cache has read
  int64_t read_tokens_ = 0, made_tokens_ = 0;
  double read_seconds_ = 0.0, made_seconds_ = 0.0;
};

void chat(Speaker& speaker, const BPETokenizer& tokenizer, const ChatTemplate& form,
          std::vector<ChatMessage> messages) {
  std::string line;
  while (std::printf("> "), std::fflush(stdout), std::getline(std::cin, line)) {
    if (line.empty()) continue;
    const size_t before = messages.size();
    messages.push_back({"user", line});
    try {
      messages.push_back({"assistant", speaker.speak(form.encode(tokenizer, messages))});
      form.encode(tokenizer, messages);  // an Error where the answer has special tokens
    } catch (const Error& error) {       // such as special tokens in what was typed
      std::fprintf(stderr, "%s\n", error.what());
      messages.resize(before);
    }
  }
  std::printf("\n");
}

// The model with its weights as --weights says: quantised ones of a GGUF file as they lie there, or
// all of a dtype, or quantised here.
nn::Llama read_model(const std::string& path, const std::string& weights) {
  if (weights == "file") return nn::Llama::from_pretrained(path, {.quantized = !is_folder(path)});
  if (weights == "bfloat16") return nn::Llama::from_pretrained(path, {.dtype = kBFloat16});
  nn::Llama model = nn::Llama::from_pretrained(path);
  if (weights != "float32") nn::quantize_linear(model, weights);
  return model;
}

void run(const Options& options) {
  const std::string& path = options.at("--model");
  const std::vector<std::string> known = {"file", "float32", "bfloat16", "Q8_0", "Q4_0", "Q4_1"};
  check(std::ranges::find(known, options.at("--weights")) != known.end(), kUsage);
  nn::GenerateOptions how;
  how.max_new_tokens = whole(options, "--tokens");
  how.temperature = number(options, "--temperature");
  how.top_p = number(options, "--top-p");
  if (!options.at("--top-k").empty()) how.top_k = whole(options, "--top-k");
  how.repetition_penalty = number(options, "--repetition-penalty");
  check(how.temperature >= 0 && how.top_p > 0 && how.top_p <= 1 && how.repetition_penalty > 0,
        "generate: --temperature is 0 or more, --top-p above 0 and at most 1, "
        "--repetition-penalty above 0");
  const BPETokenizer tokenizer = BPETokenizer::from_pretrained(path);
  nn::Llama model = read_model(path, options.at("--weights"));
  model.eval();
  const NoGrad no_grad;

  how.stop_tokens = model.config().token_ids.eos;
  if (!options.at("--seed").empty()) manual_seed(static_cast<uint64_t>(whole(options, "--seed")));
  const int64_t most = model.context_length();
  const int64_t context =
      options.at("--context").empty() ? std::min<int64_t>(most, 2048) : whole(options, "--context");
  check(context <= most, "generate: --context ", context, ", and the model has ", most);
  // While a model is read, Ctrl-C ends the program; from now on a sentence. Where a line is
  // awaited, the wait ends, and so the program.
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, nullptr);

  if (!options.at("--prompt").empty()) {
    Speaker speaker(model, tokenizer, context, how);
    speaker.speak(tokenizer.encode(options.at("--prompt")), options.at("--prompt"));
    return speaker.report();
  }
  const ChatTemplate form = options.at("--template").empty()
                                ? ChatTemplate::from_pretrained(path)
                                : ChatTemplate::named(options.at("--template"));
  for (const int64_t token : form.stop_tokens(tokenizer)) how.stop_tokens.push_back(token);
  Speaker speaker(model, tokenizer, context, how);
  std::vector<ChatMessage> messages;
  if (!options.at("--system").empty()) messages.push_back({"system", options.at("--system")});
  if (options.at("--chat").empty()) {
    messages.push_back({"user", options.at("--ask")});
    speaker.speak(form.encode(tokenizer, messages));
  } else {
    chat(speaker, tokenizer, form, messages);
  }
  speaker.report();
}

int main(int argc, char** argv) {
  try {
    run(read_options(argc, argv));
    flush_output();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
// [end]

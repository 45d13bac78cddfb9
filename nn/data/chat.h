#pragma once
// Chats as the text that a language model was trained on.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/nn/data/bpe.h>

namespace hero::nn::data {

/// A message of a chat.
struct ChatMessage {
  std::string role;     ///< who says it: "system", "user" or "assistant"
  std::string content;  ///< what is said
};

/// Reads chats from a file with a JSON object in each line, as fine-tuning services take them:
/// {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}.
/// Empty lines are passed over, and so are keys of the object beside messages. Throws an Error that
/// names the line if it is something else.
std::vector<std::vector<ChatMessage>> load_chats(const std::string& path);

/// A chat as tokens, and which of them a model is to learn.
struct ChatTokens {
  std::vector<int64_t> tokens;
  /// True for the tokens of answers, with the token that ends each.
  std::vector<bool> answers;
};

/// Makes a text of a chat, with the marks by which a model knows who says what. Models come with a
/// template for it, a program in the language Jinja, which is not run here: those of ChatML
/// (Qwen2.5, SmolLM2 and others), Llama 3, Llama 3.1 and Mistral are recognised, and a program can
/// give a function for others. It is a value; several threads may use one at once.
/// \snippet test_examples_models.cpp ChatTemplate
class ChatTemplate {
 public:
  /// Makes the text of messages; `prompt` says whether the marks that begin an answer follow.
  using Function = std::function<std::string(std::span<const ChatMessage> messages, bool prompt)>;

  /// A template of a program's own. `marks` are the texts of the special tokens that the function
  /// writes; `ends` are those of them that end an answer.
  ChatTemplate(std::string name, Function function, std::vector<std::string> marks,
               std::vector<std::string> ends);
  /// The template of this name: "chatml", "llama3", "llama3.1" or "mistral". Throws an Error for
  /// another one.
  ///
  /// - chatml: `<|im_start|>user` newline `hello<|im_end|>` newline, for each message.
  /// - llama3: `<|begin_of_text|>`, then `<|start_header_id|>user<|end_header_id|>`, two newlines,
  ///   `hello<|eot_id|>` for each message, without white space around what is said.
  /// - llama3.1: the same with a system message that begins with two lines of dates.
  /// - mistral: `<s>[INST] hello [/INST] answer</s>`, without a system message.
  static ChatTemplate named(std::string_view name);
  /// The template that a text in Jinja defines. Throws an Error that begins with `label` and shows
  /// the start of the text, unless its expressions are those of a known template.
  static ChatTemplate recognised(std::string_view jinja, const std::string& label);
  /// The template of a model as Llama::from_pretrained() takes it: tokenizer.chat_template of a
  /// GGUF file; chat_template.jinja of a folder, or chat_template of its tokenizer_config.json.
  static ChatTemplate from_pretrained(const std::string& path);

  /// The name: that of named(), or the program's own.
  const std::string& name() const { return name_; }
  /// The text of a chat; `prompt` says whether the marks that begin an answer follow. Throws an
  /// Error for roles, or an order of them, that the template does not have.
  std::string text(std::span<const ChatMessage> messages, bool prompt = true) const;
  /// The tokens of that text. Throws an Error that names the message if it contains the text of a
  /// special token, by which a message could end itself and begin another one. Throws an Error if
  /// the tokenizer lacks one of the template's marks.
  std::vector<int64_t> encode(const BPETokenizer& tokenizer, std::span<const ChatMessage> messages,
                              bool prompt = true) const;
  /// The same for training. Each answer begins a piece that is encoded by itself, as it is when the
  /// model generates it.
  ChatTokens encode_answers(const BPETokenizer& tokenizer,
                            std::span<const ChatMessage> messages) const;
  /// The tokens that end an answer, for GenerateOptions::stop_tokens.
  std::vector<int64_t> stop_tokens(const BPETokenizer& tokenizer) const;

 private:
  void check_messages(const BPETokenizer& tokenizer, std::span<const ChatMessage> messages) const;

  std::string name_;
  Function function_;
  std::vector<std::string> marks_, ends_;
};

/// Reads chats as load_chats(path) does, as the tokens that form.encode_answers() makes of them,
/// for training. Its Errors, such as of roles that the template does not have, name the line, too.
std::vector<ChatTokens> load_chats(const std::string& path, const ChatTemplate& form,
                                   const BPETokenizer& tokenizer);

}  // namespace hero::nn::data

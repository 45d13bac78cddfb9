#pragma once
// Byte-pair encoding on bytes, as GPT-2 does it: Sennrich et al., arXiv 1508.07909; Radford et al.,
// "Language models are unsupervised multitask learners", 2019.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/nn/data/tokenizer.h>

namespace hero::nn::data {

struct BPEModel;

/// Options of BPETokenizer::train().
struct BPETrainOptions {
  int64_t vocab_size = 1024;  ///< bytes (256), merged tokens and special tokens together
  /// Texts of special tokens, which get the last numbers, in this order.
  std::vector<std::string> special_tokens = {};
  /// Pairs that occur less often are not merged.
  int64_t min_frequency = 2;
};

/// What encode() does with the text of a special token. Tokens that a file adds without calling
/// them special are encoded in any case.
enum class SpecialTokens {
  refuse,  ///< it is an Error, so that untrusted text cannot control a model
  encode,  ///< it becomes the special token; the longest if several begin there
  ignore,  ///< it is treated like any other text
};

/// A tokenizer whose tokens are byte strings: any bytes, UTF-8 or not, come back from decode() as
/// they went into encode(). Text is cut into pieces by GPT-2's pattern or by what a file says
/// (bpe_split.h), and in each piece the pair that was learned first is merged, until there is none.
/// It is a cheap handle, and several threads may call encode() at once.
///
/// A loaded tokenizer does what its file says, as Hugging Face's tokenizers do: it may normalize
/// the text (NFC), put a space before it, or take white space into an added token, and then
/// decode() gives the text that this made.
class BPETokenizer : public Tokenizer {
 public:
  BPETokenizer(const BPETokenizer&) = default;  // no move: a moved-from object stays valid
  BPETokenizer& operator=(const BPETokenizer&) = default;
  /// Learns merges from a text. Each merges the pair that then occurs most often; of equally
  /// frequent pairs, the one with the smaller left token, then the smaller right token. The result
  /// depends only on the text. Tokens 0 to 255 are the bytes, in GPT-2's order.
  static BPETokenizer train(std::string_view text, const BPETrainOptions& options = {});

  /// \name Files
  /// Formats are tokenizer.json of Hugging Face's tokenizers, for byte-level BPE, and GPT-2's pair
  /// of encoder.json and vocab.bpe, in which an entry that no merge makes is a special token. Known
  /// are the normalizer NFC; the patterns of GPT-2, Llama 3 and Qwen2 and digits as pre-tokenizers;
  /// every option of added tokens; unk_token, fuse_unk and ignore_merges of the model; tokens that
  /// a post-processor puts around a text. Throws an Error that names the file and what is wrong in
  /// it, also for a field that is unknown or asks for something that is not supported (truncation,
  /// padding, dropout).
  /// \{
  void save(const std::string& path) const;
  static BPETokenizer load(const std::string& path);
  void save_gpt2(const std::string& encoder_json, const std::string& vocab_bpe) const;
  static BPETokenizer load_gpt2(const std::string& encoder_json, const std::string& vocab_bpe);
  /// Reads the tokenizer in the metadata of a GGUF file: byte-level BPE ("gpt2") that cuts texts as
  /// GPT-2, SmolLM, Llama 3 or Qwen2 do (gpt-2, smollm, starcoder, llama-bpe, qwen2).
  static BPETokenizer load_gguf(const std::string& path);
  /// Reads the tokenizer of a model as Llama::from_pretrained() takes it: tokenizer.json of a
  /// folder, or the metadata of a GGUF file.
  static BPETokenizer from_pretrained(const std::string& path);
  /// Reads the same from a text; `label` names it in errors.
  static BPETokenizer parse(std::string_view json, const std::string& label);
  static BPETokenizer parse_gpt2(std::string_view encoder, std::string_view merges,
                                 const std::string& label);
  /// \}

  /// The largest number of a token and 1; some numbers below may have no token, as in the file.
  int64_t vocab_size() const override;
  /// The tokens of a text. Throws an Error if it contains the text of a special token.
  std::vector<int64_t> encode(std::string_view text) const override {
    return encode(text, SpecialTokens::refuse);
  }
  /// The tokens of a text. Those that the file's post-processor puts around each text, such as
  /// Llama 3's `<|begin_of_text|>`, come with them if `add_special_tokens`. Throws an Error at a
  /// byte for which the vocabulary has neither a token nor an unknown token.
  std::vector<int64_t> encode(std::string_view text, SpecialTokens special,
                              bool add_special_tokens = true) const;
  using Tokenizer::decode;
  std::string decode(std::span<const int64_t> tokens) const override;

  /// The bytes of one token.
  const std::string& bytes(int64_t token) const;
  /// The number of the special or other added token with this text. Throws an Error if there is
  /// none.
  int64_t special_token(std::string_view text) const;
  /// The texts of the special tokens, in the order of their numbers.
  std::vector<std::string> special_tokens() const;

 private:
  explicit BPETokenizer(std::shared_ptr<const BPEModel> model) : model_(std::move(model)) {}
  std::shared_ptr<const BPEModel> model_;
};

}  // namespace hero::nn::data

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

struct BPETrainOptions {
  int64_t vocab_size = 1024;  ///< 256 bytes, merged tokens and special tokens together
  std::vector<std::string> special_tokens = {};  ///< numbered last, in this order
  int64_t min_frequency =
      2;  ///< pairs seen less often are not merged; the vocabulary stays smaller
};

/// What encode() does with the text of a special token.
enum class SpecialTokens {
  refuse,  ///< an Error: text of strangers must not control a model
  encode,  ///< it becomes the special token; the longest where several begin at one place
  ignore,  ///< it is text like any other
};

/// Tokens are byte strings: any bytes at all, UTF-8 or not, come back from decode() as they went
/// into encode(). Text is cut into pieces by GPT-2's pattern (bpe_split.h), and in each piece the
/// pair that was learned first is merged until none is left. A cheap handle; encode() may be called
/// from several threads at once.
class BPETokenizer : public Tokenizer {
 public:
  /// Learns merges from a text: again and again the pair that occurs most often, of several the one
  /// with the smaller left, then right token. The result depends on the text alone. Tokens 0 to 255
  /// are the bytes, in GPT-2's order.
  static BPETokenizer train(std::string_view text, const BPETrainOptions& options = {});

  /// \name Files
  /// A tokenizer.json of Hugging Face's tokenizers, byte-level BPE without normalisation, and
  /// GPT-2's pair encoder.json and vocab.bpe, in which an entry that no merge makes is a special
  /// token. An Error names the file and what is wrong in it, a tokenizer of another kind included.
  /// \{
  void save(const std::string& path) const;
  static BPETokenizer load(const std::string& path);
  void save_gpt2(const std::string& encoder_json, const std::string& vocab_bpe) const;
  static BPETokenizer load_gpt2(const std::string& encoder_json, const std::string& vocab_bpe);
  /// The same from a text; `label` names it in errors.
  static BPETokenizer parse(std::string_view json, const std::string& label);
  static BPETokenizer parse_gpt2(std::string_view encoder, std::string_view merges,
                                 const std::string& label);
  /// \}

  int64_t vocab_size() const override;
  /// The tokens of a text; special tokens in it are refused.
  std::vector<int64_t> encode(std::string_view text) const override {
    return encode(text, SpecialTokens::refuse);
  }
  std::vector<int64_t> encode(std::string_view text, SpecialTokens special) const;
  using Tokenizer::decode;
  std::string decode(std::span<const int64_t> tokens) const override;

  /// The bytes of one token.
  const std::string& bytes(int64_t token) const;
  /// The number of a special token; an Error when there is none of that text.
  int64_t special_token(std::string_view text) const;
  /// The special tokens' texts, by number.
  std::vector<std::string> special_tokens() const;

 private:
  explicit BPETokenizer(std::shared_ptr<const BPEModel> model) : model_(std::move(model)) {}
  std::shared_ptr<const BPEModel> model_;
};

}  // namespace hero::nn::data

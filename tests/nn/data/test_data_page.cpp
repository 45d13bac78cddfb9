// The code on docs/guides/data.md, run.
#include <cstdlib>
#include <span>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/data/data.h>

using namespace hero;
using namespace hero::nn::data;

namespace pages {

// [snippet: own]
struct Sines : Dataset {
  int64_t size() const override { return 1000; }
  Example get(int64_t index) const override {
    const Tensor x = tensor(0.01 * static_cast<double>(index));
    return {x, sin(x)};
  }
};
// [end]

}  // namespace pages

TEST_CASE("the code on the page of data runs", "[nn][data]") {
  using pages::Sines;
  const hero_test::TempDir dir;
  const std::string path = dir / "tokenizer.json";
  int64_t seen = 0;

  // [snippet: train]
  const FashionMNIST train({.train = true});
  DataLoader loader(train, {.batch_size = 64, .shuffle = true, .seed = 1, .workers = 2});
  for (const auto& [images, labels] : loader) {  // [64, 1, 28, 28] in 0..1 and [64]
    seen += labels.numel();
    if (seen >= 640) break;  // ends the workers
  }
  // [end]
  CHECK(seen == 640);

  const MapDataset noisy(Sines{}, [](const Example& sample) {
    return Example{sample[0] + 0.01 * randn({}), sample[1]};  // the same bits with any workers
  });
  const std::vector<Subset> parts = random_split(noisy, {0.9, 0.1}, 7);
  CHECK(parts[0].size() == 900);

  // [snippet: augment]
  const MapDataset augmented(train, [](const Example& sample) {
    const auto at = randint(0, 5, {2}).to_vector<int64_t>();  // up to two pixels in any direction
    const Tensor padded = pad(sample[0], {2, 2, 2, 2});       // [1, 32, 32]
    const Tensor moved = padded.slice(1, at[0], at[0] + 28).slice(2, at[1], at[1] + 28);
    return Example{rand({}).item() < 0.5 ? flip(moved, {2}) : moved, sample[1]};
  });
  // [end]
  CHECK(augmented.get(0)[0].shape() == Shape{1, 28, 28});
  manual_seed(1);  // a draw that neither moves nor mirrors is one in fifty
  CHECK_FALSE(equal(augmented.get(0)[0], train.get(0)[0]));
  CHECK(equal(augmented.get(0)[1], train.get(0)[1]));

  DataLoader sines(parts[0], {.batch_size = 32, .shuffle = true});
  auto batch = sines.begin();
  ++batch;
  const auto state = sines.state_dict();  // two batches handed out
  DataLoader resumed(parts[0], {.batch_size = 32, .shuffle = true});
  resumed.load_state_dict(state);
  const Example third = *resumed.begin();
  ++batch;
  CHECK(equal(third[0], (*batch)[0]));

  DistributedSampler sampler(train, {.num_replicas = 4, .rank = 1, .seed = 1});
  DataLoader share(train, {.batch_size = 16, .sampler = &sampler});
  CHECK(share.size() == 938);

  // [snippet: text]
  const std::string text = king_james();
  const BPETokenizer tokenizer =
      BPETokenizer::train(text, {.vocab_size = 1024, .special_tokens = {"<|endoftext|>"}});
  tokenizer.save(path);  // Hugging Face's tokenizers read it
  const Tokens tokens(tokenizer.encode(text));
  const TokenDataset pieces(tokens.part(0, tokens.size() * 9 / 10), {.block = 64});
  const auto [inputs, targets] = pieces.random_batch(12, 1, 0);  // seed 1, step 0: [12, 64] each
  // [end]
  CHECK(inputs.shape() == Shape{12, 64});
  CHECK(equal(inputs.slice(1, 1), targets.slice(1, 0, 63)));
  CHECK(BPETokenizer::load(path).decode(inputs) == tokenizer.decode(inputs));

  std::vector<uint8_t> image(3 * 4 * 5, 255);
  const int64_t height = 4, width = 5;
  const Tensor pixels = from_blob(image.data(), {height, width, 3}, {.dtype = kUInt8});
  const Tensor input = pixels.permute({2, 0, 1}).to(kFloat32) / 255.0;  // [3, height, width]
  const Tensor output = input.mean({1, 2}).contiguous();
  const std::span<const float> numbers(output.data_ptr<float>(), 3);  // valid while output lives
  const std::vector<double> copied = output.to_vector<double>();
  CHECK(numbers[2] == 1.0F);
  CHECK(copied == std::vector<double>{1.0, 1.0, 1.0});
}

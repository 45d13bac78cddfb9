#pragma once
// A small Llama and how it trains, for the tests of several ranks.
#include <memory>
#include <vector>

#include "dist/data_parallel/strategies.h"

namespace hero::test {

inline nn::LlamaConfig ranks_llama() {
  return {.vocab_size = 19,
          .hidden_size = 16,
          .intermediate_size = 20,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .max_position_embeddings = 8,
          .rope_scaling = {.kind = nn::RotaryScaling::Kind::linear, .factor = 2.0},
          .qkv_bias = true};
}

inline std::unique_ptr<nn::Llama> made_llama(bool tied = false, Device device = kCpu) {
  nn::LlamaConfig config = ranks_llama();
  config.tie_word_embeddings = tied;
  manual_seed(7);
  const nn::DeviceScope scope(device);
  return std::make_unique<nn::Llama>(config);
}

inline Tensor llama_ids(const Shape& shape, uint64_t seed) {
  std::vector<int64_t> ids;
  for (const float v : noise(shape, kFloat32, seed).to_vector<float>()) {
    ids.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * 19.0f));
  }
  return Tensor(Array::from(ids, shape));
}

/// Three steps of AdamW, each of this rank's own batch of T positions.
inline void train_llama(nn::Llama& model, int batch, Whole& whole, int64_t T = 6) {
  const auto optimizer = make_method(Method::adamw, model.parameters());
  for (int step = 0; step < 3; ++step) {
    const auto seed = static_cast<uint64_t>(100 * step + batch + 1);
    model.loss(llama_ids({2, T}, seed), llama_ids({2, T}, seed + 50)).backward();
    finish_step(model, *optimizer, 0.5);
  }
  add_state(whole, model, *optimizer);
}

}  // namespace hero::test

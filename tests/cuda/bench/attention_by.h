#pragma once
#include <hero/cuda/cuda.h>

namespace hero_bench {

// Attention by this library while it lives; an Error where there is none.
class AttentionBy {
 public:
  explicit AttentionBy(hero::cuda::AttentionLibrary library) {
    hero::cuda::set_attention_library(library);
  }
  ~AttentionBy() { hero::cuda::set_attention_library(hero::cuda::AttentionLibrary::own); }
  AttentionBy(const AttentionBy&) = delete;
  AttentionBy& operator=(const AttentionBy&) = delete;
};

inline constexpr hero::cuda::AttentionLibrary kAttentionLibraries[] = {
    hero::cuda::AttentionLibrary::own, hero::cuda::AttentionLibrary::cudnn};
inline const char* variant_of(hero::cuda::AttentionLibrary library) {
  return library == hero::cuda::AttentionLibrary::own ? "eager" : "cudnn";
}

}  // namespace hero_bench

// Windows, norms and integer arithmetic with the largest and the smallest integers.
#include "autograd/ops/extremes.h"

namespace {

using namespace hero;
using namespace hero::ends;

std::vector<Case> cases() {
  using D = Device;
  using N = const Numbers&;
  return {
      // windows
      {"conv1d",
       {1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3}, {.device = d});
         return Results{conv1d(line(d), w, {}, {n[0], n[1], n[2], n[3]})};
       }},
      {"conv1d of one tap",
       {1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 1}, {.device = d});
         return Results{conv1d(line(d), w, {}, {n[0], n[1], n[2]})};
       }},
      {"conv2d",
       {1, 1, 1, 1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3, 2}, {.device = d});
         return Results{conv2d(image(d), w, {}, {{n[0], n[1]}, {n[2], n[3]}, {n[4], n[5]}, n[6]})};
       }},
      {"conv_transpose1d",
       {2, 1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3}, {.device = d});
         return Results{conv_transpose1d(line(d), w, {}, {n[0], n[1], n[2], n[3], n[4]})};
       }},
      {"conv_transpose2d",
       {2, 2, 1, 1, 1, 1, 1, 1, 1},
       [](N n, D d) {
         const Tensor w = ones({2, 2, 3, 1}, {.device = d});
         return Results{conv_transpose2d(
             image(d), w, {}, {{n[0], n[1]}, {n[2], n[3]}, {n[4], n[5]}, {n[6], n[7]}, n[8]})};
       }},
      {"max_pool1d",
       {3, 2, 1, 1},
       [](N n, D d) {
         Results results;
         for (bool ceil : {false, true}) {
           results.push_back(
               max_pool1d(line(d), n[0],
                          {.stride = n[1], .padding = n[2], .dilation = n[3], .ceil_mode = ceil}));
         }
         return results;
       }},
      {"max_pool2d",
       {3, 3, 2, 2, 1, 1, 1, 1},
       [](N n, D d) {
         return Results{max_pool2d(
             image(d), {n[0], n[1]},
             {.stride = Pair{n[2], n[3]}, .padding = {n[4], n[5]}, .dilation = {n[6], n[7]}})};
       }},
      {"avg_pool1d",
       {3, 2, 1},
       [](N n, D d) {
         Results results;
         for (bool ceil : {false, true}) {
           for (bool padded : {false, true}) {
             results.push_back(avg_pool1d(line(d), n[0],
                                          {.stride = n[1],
                                           .padding = n[2],
                                           .ceil_mode = ceil,
                                           .count_include_pad = padded}));
           }
         }
         return results;
       }},
      {"avg_pool2d",
       {3, 3, 2, 2, 1, 1},
       [](N n, D d) {
         return Results{avg_pool2d(image(d), {n[0], n[1]},
                                   {.stride = Pair{n[2], n[3]}, .padding = {n[4], n[5]}})};
       }},
      {"adaptive_avg_pool1d",
       {3},
       [](N n, D d) { return Results{adaptive_avg_pool1d(line(d), n[0])}; }},
      {"adaptive_avg_pool2d",
       {3, 4},
       [](N n, D d) {
         return Results{adaptive_avg_pool2d(image(d), {n[0], n[1]})};
       }},
      {"adaptive_max_pool1d",
       {3},
       [](N n, D d) { return Results{adaptive_max_pool1d(line(d), n[0])}; }},
      {"adaptive_max_pool2d",
       {3, 4},
       [](N n, D d) {
         return Results{adaptive_max_pool2d(image(d), {n[0], n[1]})};
       }},
      {"upsample_nearest2d",
       {7, 9},
       [](N n, D d) {
         return Results{upsample_nearest2d(image(d), {n[0], n[1]})};
       }},
      // the rest
      {"group_norm", {2}, [](N n, D d) { return Results{group_norm(image(d), n[0])}; }},
      {"layer_norm",
       {5, 6},
       [](N n, D d) {
         return Results{layer_norm(image(d), {n[0], n[1]})};
       }},
      {"pow of integers",
       {3, 2},
       [](N n, D) { return Results{pow(tensor(std::vector<int64_t>{n[0]}), n[1])}; }},
      {"remainder",
       {7, 3},
       [](N n, D) { return Results{remainder(tensor(std::vector<int64_t>{n[0]}), n[1])}; }},
      {"clamp",
       {1, 3},
       [](N n, D) { return Results{clamp(tensor(std::vector<int64_t>{n[0]}), n[0], n[1])}; }},
  };
}

TEST_CASE("every integer of a window takes the largest numbers or refuses them",
          "[autograd][process]") {
  try_cases(cases());
}

}  // namespace

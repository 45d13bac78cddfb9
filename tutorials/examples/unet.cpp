// A U-Net finds discs in noise: the image goes down two levels and up again by bilinear upsampling,
// beside what it was on each level. Ronneberger et al., arXiv 1505.04597. docs/guides/layers.md
// shows it.
//
//   ./unet --steps 200

#include <cstdio>
#include <cstdlib>
#include <string>

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

// Two convolutions, each with a norm.
struct Stage : nn::Module {
  Stage(int64_t in, int64_t out)
      : first(add<nn::Conv2d>("first", in, out, 3, {.padding = 1, .bias = false})),
        first_norm(add<nn::BatchNorm2d>("first_norm", out)),
        second(add<nn::Conv2d>("second", out, out, 3, {.padding = 1, .bias = false})),
        second_norm(add<nn::BatchNorm2d>("second_norm", out)) {}
  Tensor forward(const Tensor& x) override {
    return relu(second_norm(second(relu(first_norm(first(x))))));
  }

  nn::Conv2d& first;
  nn::BatchNorm2d& first_norm;
  nn::Conv2d& second;
  nn::BatchNorm2d& second_norm;
};

// x [N, 1, H, W] to a score for each pixel, [N, 1, H, W]; 4 divides H and W.
struct UNet : nn::Module {
  Stage& down_1 = add<Stage>("down_1", 1, 8);
  Stage& down_2 = add<Stage>("down_2", 8, 16);
  Stage& bottom = add<Stage>("bottom", 16, 32);
  Stage& up_2 = add<Stage>("up_2", 32 + 16, 16);
  Stage& up_1 = add<Stage>("up_1", 16 + 8, 8);
  nn::Conv2d& scores = add<nn::Conv2d>("scores", 8, 1, 1);

  Tensor forward(const Tensor& x) override {
    const Tensor a = down_1(x);                      // [N, 8, H, W]
    const Tensor b = down_2(max_pool2d(a, {2, 2}));  // [N, 16, H / 2, W / 2]
    const Tensor c = bottom(max_pool2d(b, {2, 2}));  // [N, 32, H / 4, W / 4]
    const Tensor d = up_2(cat({twice(c), b}, 1));    // beside what it was
    return scores(up_1(cat({twice(d), a}, 1)));
  }
  static Tensor twice(const Tensor& x) {
    return interpolate(x, {.scale_factor = {2.0}, .mode = Interpolation::bilinear});
  }
};

struct Batch {
  Tensor images, masks;  // [N, 1, S, S]
};

// Discs anywhere, of radius 4 to 10, as bright as the noise around them is loud.
Batch discs(int64_t N, int64_t S) {
  const Tensor at = arange(S).to(kFloat32);
  const auto centres = [&] { return 8.0 + 16.0 * rand({N, 1, 1, 1}); };
  const Tensor x = at - centres(), y = at.unsqueeze(1) - centres(),
               r = 4.0 + 6.0 * rand({N, 1, 1, 1});
  const Tensor masks = (square(x) + square(y) < square(r)).to(kFloat32);
  return {masks + randn(masks.shape()), masks};
}

// Pixels in both over pixels in either, of what the scores say and what is there.
double overlap(const Tensor& scores, const Tensor& masks) {
  const Tensor said = scores > 0, there = masks > 0.5;
  return sum(logical_and(said, there)).item() / sum(logical_or(said, there)).item();
}

// The number behind --steps, or that of a run without options; 0 where it is neither.
int steps_of(int argc, char** argv) {
  if (argc == 1) return 200;
  const int number = argc == 3 && argv[1] == std::string("--steps") ? std::atoi(argv[2]) : 0;
  return number > 0 && std::to_string(number) == argv[2] ? number : 0;
}

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv);
  if (steps == 0) {
    std::fputs("usage: unet [--steps N], N at least 1\n", stderr);
    return 2;
  }
  manual_seed(1);
  UNet net;
  optim::AdamW adamw(net.parameters(), {.lr = 5e-3});
  for (int step = 1; step <= steps; ++step) {
    const auto [images, masks] = discs(8, 32);
    const Tensor loss = bce_with_logits(net(images), masks);
    loss.backward();
    adamw.step();
    adamw.zero_grad();
    if (step % 50 == 0) std::printf("step %d, loss %.4f\n", step, loss.item());
  }
  net.eval();
  const NoGrad no_grad;
  const auto [images, masks] = discs(64, 32);
  std::printf("overlap with discs that it has not seen: %.2f\n", overlap(net(images), masks));
  std::printf("of pixels that are brighter than a half: %.2f\n", overlap(images - 0.5, masks));
}

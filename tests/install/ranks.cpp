// The short program on several ranks of docs/first_program.md.
// [snippet: program]
#include <ostream>

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

void train(dist::Communicator& world) {
  const nn::GPTConfig config = {
      .vocab_size = 31, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16};
  nn::GPT model(config);
  dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});  // or DDP, or ZeRO
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  // two sequences of each rank that count by seven, and the token that follows each of theirs
  const Tensor text = remainder(arange(18, kInt64) * 7 + world.rank(), 31).reshape({2, 9});
  const Tensor tokens = text.slice(1, 0, 8), targets = text.slice(1, 1, 9);
  for (int step = 1; step <= 100; ++step) {
    const Tensor loss = model.loss(tokens, targets);
    loss.backward();  // each unit's gradients are averaged over the ranks
    optim::clip_grad_norm(model.parameters(), 1.0);  // of the whole model, on every rank
    adamw.step();                                    // of this rank's shards
    adamw.zero_grad();
    if (step % 25 == 0) world.out() << "step " << step << ": loss " << loss.item() << "\n";
  }
}

int main(int argc, char** argv) { return dist::launch(argc, argv, train); }
// [end]

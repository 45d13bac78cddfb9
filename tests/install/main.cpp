#include <hero/autograd/autograd.h>

int main() {
  hero::Tensor x = hero::tensor({3.0f}, {.requires_grad = true});
  hero::square(x).backward();
  return x.grad().item() == 6.0 ? 0 : 1;
}

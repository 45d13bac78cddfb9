// PyTorch's side of tests/peers/run, through its C++ interface: no interpreter between the calls,
// inference mode where nothing is recorded, the fused AdamW.
#include "speed_operators_torch.h"

int main() { return peers::answer_for<peers::Torch>(); }

// Hero's side of tests/peers/run.
#include "speed_operators_hero.h"

int main() { return peers::answer_for<peers::Hero>(); }

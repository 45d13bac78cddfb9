#pragma once
// All functions of tensors, by subject. Names, arguments and behaviour are PyTorch's;
// docs/differences.md lists the differences.
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/elementwise/special.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/linalg/linalg.h>
#include <hero/autograd/ops/losses/losses.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/pool/pool.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/random/random.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/resampling/interpolate.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/autograd/ops/signal/signal.h>

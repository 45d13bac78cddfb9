#pragma once
// The front header of autograd: tensors, operations, gradients.
#include <hero/autograd/functions/functional.h>
#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/graph/anomaly.h>
#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/offload/offload.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/profile/profiler.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/autograd/tensor.h>
#include <hero/core/finfo.h>

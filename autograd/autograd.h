#pragma once
// The front header of autograd: tensors, operations, gradients.
#include <hero/autograd/anomaly.h>
#include <hero/autograd/autocast.h>
#include <hero/autograd/checkpoint.h>
#include <hero/autograd/creation.h>
#include <hero/autograd/grad_mode.h>
#include <hero/autograd/gradcheck.h>
#include <hero/autograd/linalg.h>
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/offload.h>
#include <hero/autograd/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/partition.h>
#include <hero/autograd/profiler.h>
#include <hero/autograd/tensor.h>

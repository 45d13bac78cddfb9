#pragma once
// Everything of this room.
#include <hero/nn/attention.h>
#include <hero/nn/container.h>
#include <hero/nn/init.h>
#include <hero/nn/linear.h>
#include <hero/nn/module.h>
#include <hero/nn/recurrent.h>
#include <hero/nn/rotary.h>
#include <hero/nn/summary.h>
#include <hero/nn/training/training.h>

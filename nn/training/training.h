#pragma once
// What a training program needs around its loop.
#include <hero/nn/training/checkpoint.h>
#include <hero/nn/training/finite.h>
#include <hero/nn/training/metrics.h>
#include <hero/nn/training/progress.h>
#include <hero/nn/training/report.h>
#include <hero/nn/training/stop.h>

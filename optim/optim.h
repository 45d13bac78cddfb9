#pragma once
// The front header of this room.
#include <hero/optim/adadelta.h>
#include <hero/optim/adagrad.h>
#include <hero/optim/adam.h>
#include <hero/optim/adamax.h>
#include <hero/optim/clip.h>
#include <hero/optim/lamb.h>
#include <hero/optim/lbfgs.h>
#include <hero/optim/lion.h>
#include <hero/optim/nadam.h>
#include <hero/optim/newton.h>
#include <hero/optim/optimizer.h>
#include <hero/optim/radam.h>
#include <hero/optim/rmsprop.h>
#include <hero/optim/schedules.h>
#include <hero/optim/sgd.h>

#pragma once
// Everything of this room.
#include <hero/nn/container.h>
#include <hero/nn/init.h>
#include <hero/nn/linear.h>
#include <hero/nn/module.h>

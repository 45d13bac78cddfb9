#pragma once
// The front header of dist: ranks and what they say to each other.
#include <hero/dist/checkpoint.h>
#include <hero/dist/communicator.h>
#include <hero/dist/config.h>
#include <hero/dist/context_parallel.h>
#include <hero/dist/ddp.h>
#include <hero/dist/expert_parallel.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/launch.h>
#include <hero/dist/mesh.h>
#include <hero/dist/pipeline.h>
#include <hero/dist/profile.h>
#include <hero/dist/schedule.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/traffic.h>
#include <hero/dist/trainer.h>
#include <hero/dist/zero.h>

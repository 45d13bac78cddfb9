#pragma once
// The front header of dist: ranks and how they communicate.
#include <hero/dist/average.h>
#include <hero/dist/check_parallel_form.h>
#include <hero/dist/checkpoint.h>
#include <hero/dist/comm_hook.h>
#include <hero/dist/communicator.h>
#include <hero/dist/context_parallel.h>
#include <hero/dist/ddp.h>
#include <hero/dist/expert_parallel.h>
#include <hero/dist/flight_recorder.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/gather_texts.h>
#include <hero/dist/generate.h>
#include <hero/dist/launch.h>
#include <hero/dist/mesh.h>
#include <hero/dist/metrics.h>
#include <hero/dist/pipeline.h>
#include <hero/dist/pipeline_schedule.h>
#include <hero/dist/profile.h>
#include <hero/dist/sync_batch_norm.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/traffic.h>
#include <hero/dist/zero.h>
#if __has_include(<hero/dist/one_bit.h>)  // components that may be left out
#include <hero/dist/ddp_comm_hooks.h>
#include <hero/dist/one_bit.h>
#endif
#if __has_include(<hero/dist/trainer.h>)
#include <hero/dist/config.h>
#include <hero/dist/trainer.h>
#endif

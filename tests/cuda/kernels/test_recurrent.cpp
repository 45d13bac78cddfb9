// Steps of recurrent cells on the GPU beside the CPU's.
#include "cuda/close.h"

#include <hero/core/device/backend.h>

using namespace hero;
using namespace hero::core;
using hero::core::call::CellStep;
using hero::core::call::CellStepBack;
using namespace hero_test;
using hero::test::noise;
using hero::test::same;

namespace {

using Members = std::vector<Array CellStep::*>;
using BackMembers = std::vector<Array CellStepBack::*>;

const Members kStep{&CellStep::of_x,     &CellStep::of_h, &CellStep::h_before,
                    &CellStep::c_before, &CellStep::h,    &CellStep::c};
const BackMembers kBack{&CellStepBack::gates,    &CellStepBack::of_h, &CellStepBack::h_before,
                        &CellStepBack::c_before, &CellStepBack::c,    &CellStepBack::g_h,
                        &CellStepBack::g_output, &CellStepBack::g_c,  &CellStepBack::g_of_x,
                        &CellStepBack::g_of_h};

template <class Step, class List>
Step moved(const Step& step, const List& members, DType dtype, Device device) {
  Step result{.kind = step.kind};
  for (const auto member : members) {
    if ((step.*member).defined()) result.*member = (step.*member).to(dtype).to(device).clone();
  }
  return result;
}

CellStep step_of(CellKind kind, const Shape& shape, DType dtype) {
  const Shape wide{shape[0], shape[1] * (kind == CellKind::lstm ? 4 : 3)};
  CellStep step{.kind = kind};
  step.of_x = noise(wide, dtype, 1);
  step.of_h = noise(wide, dtype, 2);
  step.h_before = noise(shape, dtype, 3);
  step.h = Array::zeros(shape, dtype);
  if (kind == CellKind::gru) return step;
  step.c_before = noise(shape, dtype, 4);
  step.c = Array::zeros(shape, dtype);
  return step;
}

CellStepBack back_of(CellKind kind, const CellStep& step, const Shape& shape, bool is_output) {
  CellStepBack back{.kind = kind};
  const DType dtype = step.h.dtype();
  back.gates = step.of_x;
  back.h_before = step.h_before;
  back.g_h = noise(shape, dtype, 5);
  if (is_output) back.g_output = noise(shape, dtype, 7);
  back.g_c = noise(shape, dtype, 6);
  back.g_of_x = Array::zeros(step.of_x.shape(), dtype);
  if (kind == CellKind::gru) {
    back.of_h = step.of_h;
    back.g_of_h = Array::zeros(step.of_x.shape(), dtype);
  } else {
    back.c_before = step.c_before;
    back.c = step.c;
  }
  return back;
}

// Every array of a step on the GPU is `close` to the CPU's.
template <class Step, class List, class Close>
void check_all(const Step& got, const Step& expected, const List& members, const Close& close) {
  for (const auto member : members) {
    if ((expected.*member).defined()) CHECK(close((got.*member).to(kCpu), expected.*member));
  }
}

}  // namespace

TEST_CASE("a step of a recurrent cell in float32 has the CPU's bits, forward and backward") {
  HERO_NEEDS_GPU();
  const CellKind kind = GENERATE(CellKind::lstm, CellKind::gru);
  const bool is_output = GENERATE(false, true);
  const Shape shape = GENERATE(Shape{1, 1}, Shape{3, 7}, Shape{5, 33}, Shape{9, 64});
  const CellStep cpu = step_of(kind, shape, kFloat32);
  const CellStep gpu = moved(cpu, kStep, kFloat32, kGpu);
  backend(kCpu).run(cpu);
  backend(kGpu).run(gpu);
  check_all(gpu, cpu, kStep, same);
  const CellStepBack cpu_back = back_of(kind, cpu, shape, is_output);
  const CellStepBack gpu_back = moved(cpu_back, kBack, kFloat32, kGpu);
  backend(kCpu).run(cpu_back);
  backend(kGpu).run(gpu_back);
  check_all(gpu_back, cpu_back, kBack, same);
}

TEST_CASE("steps of recurrent cells in other dtypes are those of float64") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat64, kBFloat16, kFloat16);
  const CellKind kind = GENERATE(CellKind::lstm, CellKind::gru);
  const Shape shape{4, 19};
  // Computed in float or wider, with functions good to 2 units in the last place, from the same
  // inputs; results are rounded once. Gradients meet gates and states that were rounded, and
  // differences of those (1 - f f) keep the absolute error: some roundings in all.
  const double tolerance = 4.0 * rounding(dtype);
  const auto close = [&](const Array& got, const Array& expected) {
    return distance(got, expected) <= tolerance;
  };
  const CellStep half = step_of(kind, shape, dtype);
  const CellStep cpu = moved(half, kStep, kFloat64, kCpu);
  const CellStep gpu = moved(half, kStep, dtype, kGpu);
  backend(kCpu).run(cpu);
  backend(kGpu).run(gpu);
  check_all(gpu, cpu, kStep, close);
  const CellStepBack gpu_back = back_of(kind, moved(gpu, kStep, dtype, kCpu), shape, true);
  const CellStepBack cpu_back = moved(gpu_back, kBack, kFloat64, kCpu);
  const CellStepBack there = moved(gpu_back, kBack, dtype, kGpu);
  backend(kCpu).run(cpu_back);
  backend(kGpu).run(there);
  check_all(there, cpu_back, kBack, close);
}

TEST_CASE("a step of no rows is nothing to do") {
  HERO_NEEDS_GPU();
  const CellStep step = moved(step_of(CellKind::gru, {0, 5}, kFloat32), kStep, kFloat32, kGpu);
  backend(kGpu).run(step);
  CHECK(step.h.numel() == 0);
}

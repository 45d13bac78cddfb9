# Programs that are installed: hero-plan. They need CLI11, as tutorials do.
if(NOT TARGET hero_plan)
  return()
endif()
find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  message(STATUS "hero: CLI11 not found (Debian: libcli11-dev), hero-plan is not built")
  return()
endif()
add_executable(hero_plan_program ${PROJECT_SOURCE_DIR}/dist/plan/hero_plan.cpp)
set_target_properties(hero_plan_program PROPERTIES OUTPUT_NAME hero-plan RUNTIME_OUTPUT_DIRECTORY
                                           ${PROJECT_BINARY_DIR}/tools)
target_link_libraries(hero_plan_program PRIVATE hero::plan CLI11::CLI11)
hero_callers_of_kernels(hero_plan_program) # what plans is the library's

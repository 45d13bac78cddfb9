# Programs that are installed: hero-plan. They need CLI11, as tutorials do.
find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  message(STATUS "hero: CLI11 not found (Debian: libcli11-dev), hero-plan is not built")
  return()
endif()
add_executable(hero_plan ${PROJECT_SOURCE_DIR}/dist/plan/hero_plan.cpp)
set_target_properties(hero_plan PROPERTIES OUTPUT_NAME hero-plan RUNTIME_OUTPUT_DIRECTORY
                                           ${PROJECT_BINARY_DIR}/tools)
target_link_libraries(hero_plan PRIVATE hero::dist CLI11::CLI11)

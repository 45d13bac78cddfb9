# One program a tutorials/NN_name.cpp, in <build>/tutorials/.
find_package(CLI11 QUIET)
file(GLOB hero_tutorials CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/[0-9][0-9]_*.cpp)
if(hero_tutorials AND NOT CLI11_FOUND)
  message(STATUS "hero: CLI11 not found (Debian: libcli11-dev), tutorials are not built")
  return()
endif()
foreach(source IN LISTS hero_tutorials)
  cmake_path(GET source STEM name)
  add_executable(tutorial_${name} ${source})
  set_target_properties(tutorial_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY
                                                    ${PROJECT_BINARY_DIR}/tutorials)
  target_link_libraries(tutorial_${name} PRIVATE hero::hero CLI11::CLI11)
endforeach()

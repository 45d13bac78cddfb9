# One program a tutorials/NN_name.cpp, in <build>/tutorials/, and one test a text in
# tutorials/expected/: NN_name.txt is what the program prints without options; NN_name.<tag>.txt
# begins with the line "# args: ..." that holds its options.
add_custom_target(hero_tutorials)
find_package(CLI11 QUIET)
file(GLOB hero_tutorial_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/[0-9][0-9]_*.cpp)
if(hero_tutorial_sources AND NOT CLI11_FOUND)
  message(STATUS "hero: CLI11 not found (Debian: libcli11-dev), tutorials are not built")
  return()
endif()
# what the programs share: options, figures
file(GLOB hero_tutorial_support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/support/*.cpp)
if(hero_tutorial_sources)
  add_library(hero_tutorial_support STATIC EXCLUDE_FROM_ALL ${hero_tutorial_support})
  target_link_libraries(hero_tutorial_support PUBLIC hero::hero PRIVATE CLI11::CLI11)
endif()
foreach(source IN LISTS hero_tutorial_sources)
  cmake_path(GET source STEM name)
  add_executable(tutorial_${name} ${source})
  set_target_properties(tutorial_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY
                                                    ${PROJECT_BINARY_DIR}/tutorials)
  target_link_libraries(tutorial_${name} PRIVATE hero::hero hero_tutorial_support)
  add_dependencies(hero_tutorials tutorial_${name})
endforeach()

if(NOT HERO_TESTS)
  return()
endif()
file(GLOB hero_tutorial_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/expected/*.txt)
foreach(text IN LISTS hero_tutorial_texts)
  cmake_path(GET text FILENAME file)
  string(REGEX REPLACE "\\..*" "" name ${file})
  string(REGEX REPLACE "\\.txt$" "" case ${file})
  if(NOT TARGET tutorial_${name})
    message(FATAL_ERROR "hero: tutorials/expected/${file} belongs to no tutorials/${name}.cpp")
  endif()
  add_test(NAME "tutorial: ${case}"
           COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:tutorial_${name}> -DEXPECTED=${text}
                   -DSCRATCH=${PROJECT_BINARY_DIR}/tests/tutorials/${case} -P
                   ${PROJECT_SOURCE_DIR}/cmake/check_text.cmake)
  set_tests_properties("tutorial: ${case}" PROPERTIES LABELS tutorial TIMEOUT 900)
endforeach()

# Those with ranks print the same text whether these are threads or processes.
add_test(NAME "tutorial: those with ranks, under mpirun"
         COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_mpi tutorials ${PROJECT_BINARY_DIR}/tutorials
                 "${HERO_MPIEXEC}")
set_tests_properties("tutorial: those with ranks, under mpirun"
                     PROPERTIES LABELS tutorial TIMEOUT 1800 SKIP_RETURN_CODE 77)

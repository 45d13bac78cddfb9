# Tests of the tree itself, label `build`, and of the installed library, label `install`.

# hero_tree_test(name label command...)
function(hero_tree_test name label)
  add_test(NAME "${label}: ${name}" COMMAND ${ARGN})
  set_tests_properties("${label}: ${name}" PROPERTIES LABELS ${label} TIMEOUT 3600)
endfunction()

hero_tree_test("no file includes what its component may not use" build
                ${PROJECT_SOURCE_DIR}/tests/layers/check)
hero_tree_test("the layer check finds forbidden includes" build
                ${PROJECT_SOURCE_DIR}/tests/layers/test_check)
hero_tree_test("the text check accepts only the same text" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_text ${CMAKE_COMMAND})
hero_tree_test("texts may differ by numbers that are near" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_close_text)
hero_tree_test("the run scripts refuse and explain" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_run)
hero_tree_test("a GPU's stages end as they should" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_run_gpu)
hero_tree_test("every fuzz target has a dictionary that libFuzzer reads" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_fuzz)
hero_tree_test("every reader of files for 20 seconds" fuzz ${PROJECT_SOURCE_DIR}/tests/fuzz/run 20)
set_tests_properties("fuzz: every reader of files for 20 seconds" PROPERTIES TIMEOUT 5400)
if(HERO_HAS_CUDA)
  hero_tree_test("no kernel spills registers" build ${PROJECT_SOURCE_DIR}/tests/cuda/check_registers
                  ${PROJECT_BINARY_DIR}/CMakeFiles/hero_cuda.dir)
endif()
hero_tree_test("pages show the tutorials' code and text" docs
                ${PROJECT_SOURCE_DIR}/docs/check_snippets)
hero_tree_test("the page check finds what drifted" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_snippets)

# Each public header alone in a source of its own, twice: it includes what it uses, and has a guard.
set(sources "")
foreach(component IN LISTS hero_components)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/${component}/*.h)
  list(FILTER headers EXCLUDE REGEX "^(${hero_private_folders})/")
  foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER ${header} stem)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${stem}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include <hero/${header}>\n#include <hero/${header}>\n")
    list(APPEND sources ${source})
  endforeach()
endforeach()
add_library(hero_headers OBJECT EXCLUDE_FROM_ALL ${sources})
target_link_libraries(hero_headers PRIVATE hero::hero)
target_compile_options(hero_headers PRIVATE -O0)
hero_tree_test("every public header compiles alone" build ${CMAKE_COMMAND} --build
                ${PROJECT_BINARY_DIR} --target hero_headers)
# two builds in one tree at once would disturb each other
set_tests_properties("build: every public header compiles alone" PROPERTIES RESOURCE_LOCK tree)

hero_tree_test(
  "an outside project finds, links and runs the library" install ${CMAKE_COMMAND}
  -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/tests/install
  -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/install -DCOMPILER=${CMAKE_CXX_COMPILER} -P
  ${PROJECT_SOURCE_DIR}/cmake/check_install.cmake)
set_tests_properties("install: an outside project finds, links and runs the library"
                     PROPERTIES RESOURCE_LOCK tree)

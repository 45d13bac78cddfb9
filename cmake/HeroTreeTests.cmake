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
hero_tree_test("the script of exercises keeps what is written, and shows errors short" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_exercise)
hero_tree_test("pages and projects name this version" build ${PROJECT_SOURCE_DIR}/cmake/check_version)
hero_tree_test("a version is made whole or refused" build ${PROJECT_SOURCE_DIR}/tests/scripts/test_release)
set_tests_properties("build: a version is made whole or refused" PROPERTIES SKIP_RETURN_CODE 77)
hero_tree_test("where the seconds of a build have gone" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_build_seconds)
hero_tree_test("the check of ARM's bits finds what differs" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_bits)
hero_tree_test("a GPU's stages end as they should" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_run_gpu)
set_tests_properties("build: a GPU's stages end as they should" PROPERTIES LABELS "build;slow")
hero_tree_test("a library that is carried keeps the code of one kind of GPU" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_keep_arch)
hero_tree_test("every fuzz target has a dictionary that libFuzzer reads" build
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_fuzz)
hero_tree_test("every reader of files for 20 seconds" fuzz ${PROJECT_SOURCE_DIR}/tests/fuzz/run 20)
set_tests_properties("fuzz: every reader of files for 20 seconds" PROPERTIES TIMEOUT 5400)
if(TARGET hero_cpu_v4)
  hero_tree_test("kernels of higher levels are reached by their table alone" build
                  ${PROJECT_SOURCE_DIR}/tests/levels/check_objects ${PROJECT_BINARY_DIR} ${hero_objdump})
endif()
if(HERO_LEVELS)
  hero_tree_test("the check of levels finds what others see" build
                  ${PROJECT_SOURCE_DIR}/tests/levels/test_check ${CMAKE_CXX_COMPILER} ${hero_objdump})
endif()
if(HERO_HAS_CUDA)
  hero_tree_test("no kernel spills registers" build ${PROJECT_SOURCE_DIR}/tests/cuda/check_registers
                  ${PROJECT_BINARY_DIR}/CMakeFiles/hero_cuda.dir)
endif()
hero_tree_test("pages show the tutorials' code and text" docs
                ${PROJECT_SOURCE_DIR}/docs/check_snippets)
hero_tree_test("figures of the pages are there and shown" docs
                ${PROJECT_SOURCE_DIR}/docs/check_figures)
hero_tree_test("figures of performance are those of its tables" docs
                ${PROJECT_SOURCE_DIR}/docs/draw_performance --check)
hero_tree_test("the check of performance finds figures that are not those of the tables" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_draw_performance)
hero_tree_test("the figure check finds what drifted" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_figures)
hero_tree_test("links of the pages lead somewhere" docs
                ${PROJECT_SOURCE_DIR}/docs/check_links)
hero_tree_test("the link check finds what is broken" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_links)
hero_tree_test("words that went are nowhere" docs ${PROJECT_SOURCE_DIR}/docs/check_words)
hero_tree_test("the check of words finds them" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_words)
hero_tree_test("errors of the machine on the page are those of the sources" docs
                ${PROJECT_SOURCE_DIR}/docs/check_errors)
hero_tree_test("the check of errors finds texts that no source has" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_errors)
hero_tree_test("the page of questions has every environment variable" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_faq)
hero_tree_test("the check of the reference finds functions and fields without a text" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_reference)
hero_tree_test("the check of the reference's HTML finds what leads nowhere" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_html)
hero_tree_test("the check of the site finds what is broken" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_docs_check)
# It needs packages from the network, which no test installs: an earlier docs/build has.
set(hero_site_program "")
if(TARGET hero_test_site)
  set(hero_site_program $<TARGET_FILE:hero_test_site>)
endif()
hero_tree_test("the pages become a site that needs nothing else" site
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_docs_build ${hero_site_program})
set_tests_properties("site: the pages become a site that needs nothing else" PROPERTIES
                     SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
hero_tree_test("every translation from PyTorch is compiled" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_pytorch_page)
hero_tree_test("the page check finds what drifted" docs
                ${PROJECT_SOURCE_DIR}/tests/scripts/test_check_snippets)

# Each public header alone in a source of its own, twice: it includes what it uses, and has a guard.
# Those that include tensor.h or array.h, directly or not, take most of the time, and read it
# precompiled: what they see is the same in another order.
set(headers "")
foreach(component IN LISTS hero_components)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/${component}/*.h)
  list(APPEND headers ${found})
endforeach()
foreach(header IN LISTS headers)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes_of_${header} REGEX "^#include <hero/")
  list(TRANSFORM includes_of_${header} REPLACE "^#include <hero/([^>]+)>.*" "\\1")
endforeach()

# hero_readers(out header): the headers that include this one, directly or not
function(hero_readers out header)
  set(readers "")
  set(found ${header})
  while(found) # those that include what was found last, and so on
    set(last ${found})
    set(found "")
    foreach(reader IN LISTS headers)
      foreach(included IN LISTS includes_of_${reader})
        if(included IN_LIST last AND NOT reader IN_LIST readers)
          list(APPEND readers ${reader})
          list(APPEND found ${reader})
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${out} "${readers}" PARENT_SCOPE)
endfunction()

# hero_header_test(target headers [precompiled]): the target compiles each of these headers
function(hero_header_test target headers)
  set(sources "")
  foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER ${header} stem)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${stem}.cpp)
    string(CONCAT content "#include <hero/${header}>\n#include <hero/${header}>\n"
                          "#include <layers/user_names.h>\n")
    file(CONFIGURE OUTPUT ${source} CONTENT "${content}")
    list(APPEND sources ${source})
  endforeach()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(${target} PRIVATE hero::hero)
  target_compile_options(${target} PRIVATE -O0)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(ARGN)
    target_precompile_headers(${target} PRIVATE <hero/${ARGN}>)
  endif()
endfunction()

hero_readers(with_tensors autograd/tensor.h)
hero_readers(with_arrays core/array.h)
list(REMOVE_ITEM with_arrays ${with_tensors})
foreach(list IN ITEMS headers with_tensors with_arrays)
  list(FILTER ${list} EXCLUDE REGEX "^(${hero_private_folders})/")
  list(FILTER ${list} EXCLUDE REGEX "^(${hero_private_headers})$")
endforeach()
list(REMOVE_ITEM headers ${with_tensors} ${with_arrays})
if(NOT TARGET Eigen3::Eigen)
  list(REMOVE_ITEM with_tensors autograd/eigen.h)
endif()
hero_header_test(hero_headers "${headers}")
hero_header_test(hero_headers_of_arrays "${with_arrays}" core/array.h)
hero_header_test(hero_headers_of_tensors "${with_tensors}" autograd/tensor.h)
target_link_libraries(hero_headers_of_tensors PRIVATE hero_eigen) # autograd/eigen.h
# Two builds in one tree at once would disturb each other. These take longest, and come first (COST), so that at
# the end no core waits for one of them.
foreach(kind IN ITEMS headers headers_of_arrays headers_of_tensors)
  string(REPLACE "_" " " name "every public header compiles alone: ${kind}")
  hero_tree_test(${name} build ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target hero_${kind})
  set_tests_properties("build: ${name}" PROPERTIES RESOURCE_LOCK tree COST 100 LABELS "build;headers")
endforeach()

# the program's bytes: g++ 12 makes 6.4 million, 14 puts more functions in place of their calls
set(limit 6500000)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  set(limit 6750000)
endif()
hero_tree_test(
  "an outside project finds, links and runs the library" install ${CMAKE_COMMAND} -DLIMIT=${limit}
  -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/tests/install
  -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/install -DCOMPILER=${CMAKE_CXX_COMPILER} -P
  ${PROJECT_SOURCE_DIR}/cmake/check_install.cmake)
set_tests_properties("install: an outside project finds, links and runs the library"
                     PROPERTIES RESOURCE_LOCK tree COST 100)

hero_tree_test("files that are not built are named before any is installed" install
                ${PROJECT_SOURCE_DIR}/tests/install/not_built ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER}
                ${CMAKE_CURRENT_BINARY_DIR}/not_built)

if(TARGET hero_trainer AND TARGET hero_plan AND TARGET hero_distributions)
  hero_tree_test("what can be left out is needed by nothing else" install
                  ${PROJECT_SOURCE_DIR}/tests/install/left_out ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER}
                  ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR}/left_out)
  set_tests_properties("install: what can be left out is needed by nothing else" PROPERTIES LABELS "install;slow")
endif()

hero_tree_test("a project has the library among its sources" install
                ${PROJECT_SOURCE_DIR}/tests/install/subproject ${CMAKE_CXX_COMPILER}
                ${CMAKE_CURRENT_BINARY_DIR}/subproject)
set_tests_properties("install: a project has the library among its sources"
                     PROPERTIES RESOURCE_LOCK tree SKIP_RETURN_CODE 77 COST 100 LABELS "install;slow")

hero_tree_test("Debian packages install, serve a program, and are removed" install
                ${PROJECT_SOURCE_DIR}/tests/install/packages ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER}
                ${CMAKE_CURRENT_BINARY_DIR}/packages)
set_tests_properties("install: Debian packages install, serve a program, and are removed"
                     PROPERTIES RESOURCE_LOCK tree SKIP_RETURN_CODE 77)

# Elsewhere than on this machine, label `platforms`: they build much, so tests/run leaves them out unless asked for.
function(hero_platform_test name)
  hero_tree_test("${name}" platforms ${ARGN})
  set_tests_properties("platforms: ${name}" PROPERTIES SKIP_RETURN_CODE 77 RUN_SERIAL ON TIMEOUT 7200)
endfunction()
hero_platform_test("the third chapter in a minimal Debian 13" ${PROJECT_SOURCE_DIR}/tests/install/other_debian trixie)
hero_platform_test("the steps of the container file" ${PROJECT_SOURCE_DIR}/tests/install/other_debian --container)
# nothing is optimised, which takes a tenth of the time
hero_platform_test("the recipe for Conan makes a package that a program uses"
                   ${PROJECT_SOURCE_DIR}/tests/install/test_conan ${CMAKE_CURRENT_BINARY_DIR}/conan -s build_type=Debug -c
                   "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_UNITY_BUILD': 'ON', 'CMAKE_UNITY_BUILD_BATCH_SIZE': '24'}")

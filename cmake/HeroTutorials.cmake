# One program a tutorials/NN_name.cpp or NNa_name.cpp, in <build>/tutorials/, and one test a text in
# tutorials/expected/: NN_name.txt is what the program prints without options; NN_name.<tag>.txt
# begins with the line "# args: ..." that holds its options. The same objects linked with
# tests/cusim in place of the CUDA runtime are the programs of <build>/tests/tutorials_cusim/, which
# tests/scripts/test_tutorials_cuda runs with --device cuda. By the kernels for x86-64-v3 they print the
# same once more, label `levels`: digits do not depend on the instruction set.
# tutorials/examples/train.cpp, the program that docs/first_program.md shows, needs nothing but the library.
add_custom_target(hero_tutorials)
add_custom_target(hero_examples) # tutorials/run does not wait for them
add_executable(example_train ${PROJECT_SOURCE_DIR}/tutorials/examples/train.cpp)
set_target_properties(example_train PROPERTIES OUTPUT_NAME train RUNTIME_OUTPUT_DIRECTORY
                                               ${PROJECT_BINARY_DIR}/tutorials/examples)
target_link_libraries(example_train PRIVATE hero::hero)
add_dependencies(hero_examples example_train)
# the other examples, which the install test runs: each waits for the components that it uses and no others
set(hero_example_finetune dist)
set(hero_example_generate nn)
set(hero_example_llama_lora dist)
set(hero_example_policy_gradient distributions optim)
set(hero_example_unet nn optim)
foreach(name IN ITEMS finetune generate llama_lora policy_gradient unet)
  if(name STREQUAL "policy_gradient" AND NOT TARGET hero_distributions)
    continue()
  endif()
  set(uses ${hero_example_${name}})
  list(TRANSFORM uses PREPEND hero::)
  add_executable(example_${name} ${PROJECT_SOURCE_DIR}/tutorials/examples/${name}.cpp)
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY
                                                   ${PROJECT_BINARY_DIR}/tutorials/examples)
  target_link_libraries(example_${name} PRIVATE ${uses})
  add_dependencies(hero_examples example_${name})
endforeach()
if(HERO_TESTS AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME "tutorial: the example trains to the same bits under every strategy, and resumes"
           COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_train $<TARGET_FILE:example_train>
                   "${HERO_MPIEXEC}")
  set_tests_properties("tutorial: the example trains to the same bits under every strategy, and resumes"
                       PROPERTIES LABELS tutorial TIMEOUT 3600)
  add_test(NAME "tutorial: a language model speaks and learns, is stopped and goes on"
           COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_real_model ${PROJECT_BINARY_DIR}/tutorials/examples)
  set_tests_properties("tutorial: a language model speaks and learns, is stopped and goes on"
                       PROPERTIES LABELS tutorial TIMEOUT 3600)
endif()

find_package(CLI11 QUIET)
file(GLOB hero_tutorial_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/[0-9][0-9]_*.cpp
                                                ${PROJECT_SOURCE_DIR}/tutorials/[0-9][0-9][a-z]_*.cpp)
if(NOT CLI11_FOUND)
  message(STATUS "hero: CLI11 not found (Debian: libcli11-dev), tutorials are not built")
  return()
endif()
# What the programs share, options and figures, in three libraries, so that a program waits for no more of Hero
# than it uses: chapters 1 to 6 for autograd and optim, 7 to 9 for nn, too, and those with ranks for all of it.
# What is not named here belongs to the third.
set(of_first_chapters "options/(command|device|page|program|trace)|lessons/(path|race|valley)|pictures/(charts|plot)")
set(of_networks "options/gpt_options|lessons/(engine|fashion|language|memory)|pictures/(attention|backward|block|pictures)")
# what one chapter alone draws, and the component that it shows, which can be left out
set(of_06a pictures/guides.cpp)
set(extra_of_06a distributions)
set(of_21 lessons/planned.cpp)
set(extra_of_19a plan)
set(extra_of_21 plan)
set(of_22 lessons/compressed.cpp)
set(extra_of_22 compress)
file(GLOB_RECURSE shared_by_ranks CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/support/*.cpp)
set(shared_by_first ${shared_by_ranks})
set(shared_by_networks ${shared_by_ranks})
list(FILTER shared_by_first INCLUDE REGEX "/support/(${of_first_chapters})\\.cpp$")
foreach(source IN ITEMS ${of_06a} ${of_21} ${of_22})
  list(REMOVE_ITEM shared_by_ranks ${PROJECT_SOURCE_DIR}/tutorials/support/${source})
endforeach()
list(FILTER shared_by_networks INCLUDE REGEX "/support/(${of_networks})\\.cpp$")
list(REMOVE_ITEM shared_by_ranks ${shared_by_first} ${shared_by_networks})

# hero_tutorial_library(target sources...): one of the three
function(hero_tutorial_library target)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${ARGN})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/tutorials)
  target_link_libraries(${target} PRIVATE CLI11::CLI11)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  hero_standard_headers(${target})
  hero_batches_of(${target})
endfunction()
hero_tutorial_library(hero_tutorial_first ${shared_by_first} $<TARGET_OBJECTS:hero_nn_report>)
target_link_libraries(hero_tutorial_first PUBLIC hero::optim)
hero_tutorial_library(hero_tutorial_networks ${shared_by_networks})
target_link_libraries(hero_tutorial_networks PUBLIC hero_tutorial_first hero::nn)
hero_tutorial_library(hero_tutorial_ranks ${shared_by_ranks})
target_link_libraries(hero_tutorial_ranks PUBLIC hero_tutorial_networks hero::dist)

# hero_tutorial(target name folder libraries...): a program of the objects of one tutorial
function(hero_tutorial target name folder)
  add_executable(${target} $<TARGET_OBJECTS:tutorial_objects_${name}>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY
                                             ${PROJECT_BINARY_DIR}/${folder})
  target_link_libraries(${target} PRIVATE ${ARGN})
  if("hero_tutorial_first" IN_LIST ARGN) # a number at a time: no vectors to speak of, and hardly a matrix
    set_target_properties(${target} PROPERTIES HERO_ONE_LEVEL ON)
    if(NOT HERO_ALL_KERNELS)
      set_target_properties(${target} PROPERTIES HERO_BASIC_KERNELS ON)
    endif()
  endif()
endfunction()

set(over_cusim OFF)
if(TARGET hero_nccl_sim AND NOT HERO_SANITIZE)
  set(over_cusim ON)
  add_custom_target(hero_tutorials_cusim)
endif()
foreach(source IN LISTS hero_tutorial_sources)
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "_.*" "" number ${name})
  set(extra "")
  if(extra_of_${number})
    set(extra hero_${extra_of_${number}})
    if(NOT TARGET ${extra})
      message(STATUS "hero: chapter ${number} is left out, as is hero::${extra_of_${number}}, which it shows")
      continue()
    endif()
  endif()
  if(name MATCHES "^0[1-6]_")
    set(support hero_tutorial_first)
    set(libraries hero::cuda)
    set(over_simulator hero_cuda_sim)
  elseif(name MATCHES "^0")
    set(support hero_tutorial_networks)
    set(libraries hero::cuda)
    set(over_simulator hero_cuda_sim)
  else()
    set(support hero_tutorial_ranks)
    set(libraries hero::dist hero::cuda $<TARGET_NAME_IF_EXISTS:hero_nccl>)
    set(over_simulator hero_nccl_sim)
  endif()
  set(own ${of_${number}})
  list(TRANSFORM own PREPEND ${PROJECT_SOURCE_DIR}/tutorials/support/)
  add_library(tutorial_objects_${name} OBJECT ${source} ${own})
  target_link_libraries(tutorial_objects_${name} PRIVATE ${support})
  target_compile_options(tutorial_objects_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  hero_standard_headers(tutorial_objects_${name})
  hero_tutorial(tutorial_${name} ${name} tutorials ${support} ${extra} ${libraries})
  add_dependencies(hero_tutorials tutorial_${name})
  if(over_cusim)
    hero_tutorial(tutorial_cusim_${name} ${name} tests/tutorials_cusim ${support} ${extra} ${over_simulator})
    add_dependencies(hero_tutorials_cusim tutorial_cusim_${name})
  endif()
endforeach()

if(NOT HERO_TESTS)
  return()
endif()
file(GLOB hero_tutorial_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/expected/*.txt)
# hero_text_test(label case program): the test of a text
function(hero_text_test label case program)
  add_test(NAME "${label}: ${case}"
           COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${program}>
                   "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}"
                   -DEXPECTED=${PROJECT_SOURCE_DIR}/tutorials/expected/${case}.txt
                   -DSCRATCH=${PROJECT_BINARY_DIR}/tests/${label}/${case}
                   -DFIGURES=${PROJECT_SOURCE_DIR}/docs/check_figures -P
                   ${PROJECT_SOURCE_DIR}/cmake/check_text.cmake)
  set_tests_properties("${label}: ${case}" PROPERTIES LABELS ${label} TIMEOUT 3600)
endfunction()
foreach(text IN LISTS hero_tutorial_texts)
  cmake_path(GET text FILENAME file)
  string(REGEX REPLACE "\\..*" "" name ${file})
  string(REGEX REPLACE "\\.txt$" "" case ${file})
  if(NOT TARGET tutorial_${name})
    if(EXISTS ${PROJECT_SOURCE_DIR}/tutorials/${name}.cpp) # left out
      continue()
    endif()
    message(FATAL_ERROR "hero: tutorials/expected/${file} belongs to no tutorials/${name}.cpp")
  endif()
  hero_text_test(tutorial ${case} tutorial_${name})
  if(TARGET hero_cpu_v4)
    hero_text_test(levels ${case} tutorial_${name})
    set_tests_properties("levels: ${case}" PROPERTIES ENVIRONMENT HERO_CPU=v3)
  endif()
endforeach()

if(HERO_LEVELS)
  add_test(NAME "levels: a program that is linked with one level says so" COMMAND tutorial_03_sgd)
  set_tests_properties(
    "levels: a program that is linked with one level says so"
    PROPERTIES LABELS levels ENVIRONMENT HERO_CPU=v4 TIMEOUT 600 PASS_REGULAR_EXPRESSION
               "HERO_CPU is 'v4', and this program is linked with v3; name one of them")
endif()

# hero_tutorials_under_mpirun(label folder): those of a folder that have ranks print the same text
# whether these are threads or processes
function(hero_tutorials_under_mpirun label folder)
  set(name "${label}: those with ranks, under mpirun")
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_mpi tutorials ${folder}
                                "${HERO_MPIEXEC}")
  set_tests_properties(${name} PROPERTIES LABELS "${label};slow" TIMEOUT 3600 SKIP_RETURN_CODE 77)
endfunction()

# The rest is run by scripts, and measures this machine. Under an emulator it is two of them.
if(CMAKE_CROSSCOMPILING)
  foreach(name IN ITEMS 10_collectives 11_ddp)
    hero_started(script tutorial_${name})
  endforeach()
  hero_tutorials_under_mpirun(tutorial ${PROJECT_BINARY_DIR}/emulated)
  return()
endif()

if(NOT HERO_SANITIZE AND CMAKE_GENERATOR STREQUAL "Ninja")
  add_test(NAME "build: chapter 3 compiles what it uses"
           COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_first_chapters ${PROJECT_BINARY_DIR})
  set_tests_properties("build: chapter 3 compiles what it uses" PROPERTIES LABELS build TIMEOUT 600)
endif()

# What is measured differs from run to run; that it is measured, on the link that was asked for, does not.
foreach(name IN ITEMS 11_ddp 17_fsdp)
  add_test(NAME "tutorial: ${name} on a throttled link"
           COMMAND ${PROJECT_BINARY_DIR}/tutorials/${name} --ranks 2 --link 5e7 --out
                   ${PROJECT_BINARY_DIR}/tests/tutorials/${name}.link)
  set_tests_properties(
    "tutorial: ${name} on a throttled link"
    PROPERTIES LABELS tutorial TIMEOUT 3600 PASS_REGULAR_EXPRESSION
               "measured on a link of 50 MB/s, .*\n  [^\n]* ms, its bytes alone +[0-9.]+ ms")
endforeach()

add_test(NAME "tutorial: 21_plan beside threads"
         COMMAND ${PROJECT_BINARY_DIR}/tutorials/21_plan --link 3e8 --rounds 3)
set_tests_properties(
  "tutorial: 21_plan beside threads"
  PROPERTIES LABELS "tutorial;slow" TIMEOUT 3600 PASS_REGULAR_EXPRESSION
             "two threads on a link of 300 MB/s.*median error +[0-9]+ %, Kendall's tau")

foreach(name IN ITEMS 08a_gpt 18_gpt_fsdp)
  add_test(NAME "tutorial: ${name} tells before the run that its trace cannot be written"
           COMMAND ${PROJECT_BINARY_DIR}/tutorials/${name} --trace /no/such/t.json)
  set_tests_properties(
    "tutorial: ${name} tells before the run that its trace cannot be written"
    PROPERTIES LABELS tutorial TIMEOUT 3600 PASS_REGULAR_EXPRESSION
               "^[^\n]*${name}: [^\n]*cannot create a file beside /no/such/t.json: No such file or directory\n$")
endforeach()

add_test(NAME "tutorial: 22_compressed on a throttled link"
         COMMAND ${PROJECT_BINARY_DIR}/tutorials/22_compressed --ranks 2 --steps 10 --link 5e7 --out
                 ${PROJECT_BINARY_DIR}/tests/tutorials/22_compressed.link)
set_tests_properties(
  "tutorial: 22_compressed on a throttled link"
  PROPERTIES LABELS tutorial TIMEOUT 3600 PASS_REGULAR_EXPRESSION
             "measured on a link of 50 MB/s, seconds.*\n  1-bit Adam [^\n]*, its bytes alone +[0-9.]+")

add_test(NAME "tutorial: without a GPU --device cuda is one line"
         COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_no_gpu ${PROJECT_BINARY_DIR}/tutorials)
set_tests_properties("tutorial: without a GPU --device cuda is one line"
                     PROPERTIES LABELS tutorial TIMEOUT 3600)

add_test(NAME "tutorial: wrong use is one line, and leaves nothing behind"
         COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_wrong_use ${PROJECT_BINARY_DIR}/tutorials)
set_tests_properties("tutorial: wrong use is one line, and leaves nothing behind"
                     PROPERTIES LABELS tutorial TIMEOUT 3600)

if(over_cusim)
  foreach(source IN LISTS hero_tutorial_sources)
    cmake_path(GET source STEM name)
    add_test(NAME "cusim: ${name}"
             COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_tutorials_cuda
                     ${PROJECT_BINARY_DIR}/tests/tutorials_cusim ${name})
    set(labels cusim)
    # always: a first model, autograd alone, text, and one of each way to share a model; the others take most of the time
    if(NOT name MATCHES "^(03|06a|08a|11|16|18|20)_")
      list(APPEND labels slow)
    endif()
    set_tests_properties("cusim: ${name}" PROPERTIES LABELS "${labels}" TIMEOUT 3600)
  endforeach()
  add_test(NAME "cusim: a GPU for every process under mpirun"
           COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_mpi nccl_tutorials
                   ${PROJECT_BINARY_DIR}/tests/tutorials_cusim "${HERO_MPIEXEC}")
  set_tests_properties("cusim: a GPU for every process under mpirun"
                       PROPERTIES LABELS "cusim;slow" TIMEOUT 3600 SKIP_RETURN_CODE 77)
endif()

hero_tutorials_under_mpirun(tutorial ${PROJECT_BINARY_DIR}/tutorials)

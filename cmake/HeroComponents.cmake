# One static library a component. Headers lie beside sources and are included as
# <hero/component/name.h>: include/hero in the build tree holds one link to each component.

set(hero_include_dir ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${hero_include_dir}/hero)

# An archive waits for no other archive: what a program does not link is not built for it.
set(CMAKE_OPTIMIZE_DEPENDENCIES ON)

add_library(hero INTERFACE)
add_library(hero::hero ALIAS hero)
# The same without the CUDA backend, whose kernels are most of a program that has them.
add_library(hero_cpu INTERFACE)
add_library(hero::cpu ALIAS hero_cpu)
set_target_properties(hero_cpu PROPERTIES EXPORT_NAME cpu)
set(hero_components "" CACHE INTERNAL "The components of the library")
set(hero_extras "" CACHE INTERNAL "Those of the components below that are not left out")
set(hero_without "" CACHE INTERNAL "Headers, as a regular expression, of those that are")
# Components within a folder of another: hero_extra() makes them targets of their own, which no other component needs.
set(hero_extra_files "/nn/distributions/|/dist/(compress|trainer|plan)/|/dist/simulation/(cluster_file|rendezvous|replay|table)")

# Folders whose headers only the library and its tests include: they are not installed, and no public
# header and no tutorial includes them; and such headers that lie beside public ones. tests/layers/check reads the
# two lines below.
set(hero_private_folders "core/(cpu|json|meta)|nn/(data/bpe|models|training/report)|autograd/ops/detail|dist/(checkpoint|parallel|plan|trainer|backends/(local|mpi|nccl|simulated))")
set(hero_private_headers "autograd/(graph/(accumulate|engine)|offload/(host_copy|offload_blocks)|ops/(elementwise/(blend|clamp|rare)|index/written|linalg/power_of_two|losses/loss|nn/(attention|norm|recurrent)|conv/(conv_maps|volumes)|pool/pool_windows|resampling/grid_sample))[.]h|optim/masters[.]h|optim/pages[.]h")

# What nearly every source reads of the standard library, compiled once: half of the compile time of
# most files. Headers of Hero are not among them, so that a change to one compiles no more than its
# readers; that each header includes what it uses is tested without this (hero_headers).
set(hero_standard_headers
    <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstdio> <cstdlib>
    <cstring> <exception> <filesystem> <functional> <limits> <map> <memory> <mutex> <optional> <ostream>
    <span> <string> <string_view> <thread> <type_traits> <unordered_map> <utility> <vector>)

# hero_standard_headers(target [OWN]): lets the target's sources read them precompiled, as compiled for the first
# target that asked, or OWN, where other flags are in force
function(hero_standard_headers target)
  get_property(first GLOBAL PROPERTY hero_standard_headers_of)
  if(first AND ARGC EQUAL 1)
    target_precompile_headers(${target} REUSE_FROM ${first})
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${hero_standard_headers})
  if(NOT first)
    set_property(GLOBAL PROPERTY hero_standard_headers_of ${target})
  endif()
endfunction()

# What a file of the library reads of Hero takes longer to compile than the file itself: several are compiled
# at a time, in half the time. Kernels by fewer, since somebody who changes one waits for those beside it, and
# those that take long alone, and the one whose instructions tests/levels/check_objects allows in it alone.
set(HERO_BATCH 8 CACHE STRING "How many files of core are compiled at a time, of its kernels half as many, above it twice as many; 1: each alone")
set(hero_kernels_alone
    "/(kernels|level|batch_norm|conv|conv_bf16|conv_groups|exact_sum|gemm|gemm_amx|gemm_bf16_kernel|group_weights|im2col|map_double|map_float|pool|pool_average|quantized|recurrent|reduce|scan|scatter|softmax|sort|wide_svd)\\.cpp$")

# hero_batch(files size prefix): the sources `files`, so many at a time
function(hero_batch files size prefix)
  set(index 0)
  foreach(file IN LISTS files)
    math(EXPR number "${index} / ${size}")
    math(EXPR index "${index} + 1")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${prefix}_${number})
  endforeach()
endfunction()

# The CPU's kernels. Those that BasicKernels declares (core/cpu/cpu_backend.h), and what they need, are part of
# hero_core; the others are the library of cmake/HeroKernels.cmake.
file(GLOB_RECURSE hero_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/cpu/*.cpp)
set(hero_basic_kernels ${hero_kernels})
list(FILTER hero_basic_kernels INCLUDE REGEX
     "/core/cpu/(basic_kernels|block_io|level|streaming_stores|elementwise/(fused_map|map|map_[a-z0-9]+|move_blocks|moves|optimizer_steps|philox_words|random)|index/indexing|products/(gemm|least_squares|lu|matmul|triangular)|reduce/reduce)\\.cpp$")
set(hero_other_kernels ${hero_kernels})
list(REMOVE_ITEM hero_other_kernels ${hero_basic_kernels})
if(HERO_BATCH GREATER 1)
  math(EXPR half "${HERO_BATCH} / 2")
  foreach(group IN ITEMS basic_kernels other_kernels)
    set(files ${hero_${group}})
    list(FILTER files EXCLUDE REGEX "${hero_kernels_alone}")
    hero_batch("${files}" ${half} ${group})
  endforeach()
endif()

# hero_batches_of(target): compiles its files so. The sanitizers and clang-tidy have larger batches, of all.
function(hero_batches_of target)
  if(HERO_BATCH GREATER 1 AND NOT CMAKE_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set(size ${HERO_BATCH})
    if(NOT target MATCHES "^hero_core")
      math(EXPR size "2 * ${HERO_BATCH}")
    endif()
    get_target_property(others ${target} SOURCES)
    list(FILTER others INCLUDE REGEX "\\.cpp$")
    list(REMOVE_ITEM others ${hero_kernels})
    hero_batch("${others}" ${size} ${target})
    # g++ takes a batch's files for headers, in which types without linkage are worth a warning
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# hero_component(name USES components... [PARTS (target REGEX)...]): the target hero_<name>, also known as
# hero::<name>. The objects of the files that match a REGEX are a target of their own, with flags of its own, or
# for programs that need no more of the component.
function(hero_component name)
  cmake_parse_arguments(arg "" "" "USES;PARTS" ${ARGN})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${name} ${hero_include_dir}/hero/${name} SYMBOLIC)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  # a library of its own: cmake/HeroNccl.cmake
  list(FILTER sources EXCLUDE REGEX "/dist/backends/nccl/|${hero_extra_files}")
  list(REMOVE_ITEM sources ${hero_other_kernels})
  hero_library(${name} "${sources}" "${arg_USES}" "${arg_PARTS}")
  set(hero_components ${hero_components} ${name} CACHE INTERNAL "")
  hero_callers_of_kernels(hero_${name})
endfunction()

# hero_extra(name OF component FILES regex HEADERS regex USES components... [PARTS (target regex)...]): the target
# hero_<name>, hero::<name>, of those files in the component's folder. -DHERO_<NAME>=OFF leaves it out, with its
# headers in an installation and with its tests.
function(hero_extra name)
  cmake_parse_arguments(arg "" "OF;FILES;HEADERS" "USES;PARTS" ${ARGN})
  string(TOUPPER HERO_${name} option)
  option(${option} "Build hero::${name}" ON)
  set(is_whole ${${option}})
  foreach(used IN LISTS arg_USES)
    if(NOT TARGET hero_${used})
      set(is_whole OFF)
      if(${option})
        message(STATUS "hero: hero::${name} is left out, as is hero::${used}, which it needs")
      endif()
    endif()
  endforeach()
  if(NOT is_whole)
    string(JOIN "|" without ${hero_without} ${arg_HEADERS})
    set(hero_without "${without}" CACHE INTERNAL "")
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_OF}/*.cpp)
  list(FILTER sources INCLUDE REGEX "${arg_FILES}")
  list(FILTER sources EXCLUDE REGEX "/hero_plan\\.cpp$") # a program: cmake/HeroTools.cmake
  hero_library(${name} "${sources}" "${arg_USES}" "${arg_PARTS}")
  set(hero_extras ${hero_extras} ${name} CACHE INTERNAL "")
  if(NOT name STREQUAL "plan") # which plays simulations
    hero_callers_of_kernels(hero_${name})
  endif()
endfunction()

# hero_library(name sources uses parts): the archive hero_<name> of a component
function(hero_library name sources uses parts)
  list(TRANSFORM uses PREPEND hero_)
  while(parts)
    list(POP_FRONT parts part regex)
    set(files ${sources})
    list(FILTER files INCLUDE REGEX "${regex}")
    list(FILTER sources EXCLUDE REGEX "${regex}")
    add_library(${part} OBJECT EXCLUDE_FROM_ALL ${files})
    target_compile_features(${part} PRIVATE cxx_std_20)
    target_include_directories(${part} PRIVATE ${hero_include_dir})
    target_link_libraries(${part} PRIVATE ${uses} ZLIB::ZLIB)
    hero_standard_headers(${part})
    hero_batches_of(${part})
    list(APPEND sources $<TARGET_OBJECTS:${part}>)
  endwhile()
  add_library(hero_${name} STATIC ${sources})
  add_library(hero::${name} ALIAS hero_${name})
  set_target_properties(hero_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(hero_${name} PUBLIC cxx_std_20)
  target_include_directories(
    hero_${name} PUBLIC $<BUILD_INTERFACE:${hero_include_dir}>
                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(hero_${name} PUBLIC ${uses})
  target_link_libraries(hero INTERFACE hero_${name})
  target_link_libraries(hero_cpu INTERFACE hero_${name})
  if(name STREQUAL "dist") # which knows MPI
    hero_standard_headers(hero_${name} OWN)
  else()
    hero_standard_headers(hero_${name})
  endif()
  hero_batches_of(hero_${name})
endfunction()

# What calls the kernels has hardly a loop over numbers: at -O1, with what the compiler can put in
# place of a call, an operation takes no longer (tests/bench/bench_ops), the code is a tenth smaller, and it is
# compiled in two thirds of the time.
function(hero_callers_of_kernels target)
  set(is_meant "$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>") # clang inlines nothing at -O1
  target_compile_options(${target} PRIVATE "$<${is_meant}:-O1;-finline-functions;-finline-small-functions;-findirect-inlining;-fipa-sra>")
endfunction()

# One library for every x86-64 processor with AVX2: the files of core/cpu are compiled for x86-64-v3 like all
# others. Those that compute with floating-point numbers are compiled once more, for AVX-512, and what a program
# starts with chooses between the two tables (core/cpu/kernels.h). That is a seventh of the time of the build: where
# this processor has no AVX-512 it is done if HERO_AVX512=ON asks for it.
#
# Inline functions and templates are weak symbols: of all copies in a program the linker keeps one, and
# it must not be one for AVX-512 that other code then calls on a processor that lacks it. So the objects
# of the level are joined, and all that they define but the name of the table becomes local. What they
# do not define (arrays, the thread pool, kernels of integers) they call in the rest of the library.
# tests/levels/check_objects looks at the result.
if(NOT HERO_LEVELS)
  return()
endif()
# of this file alone: the precompiled headers are shared
set_source_files_properties(core/cpu/level.cpp PROPERTIES COMPILE_DEFINITIONS HERO_CPU_LEVELS)

# LLVM's linker has the option that dissolves groups of sections only since 19, and its objdump prints a table that
# check_objects does not read: GNU's programs do this for clang, too.
set(hero_ld ${CMAKE_LINKER})
set(hero_objcopy ${CMAKE_OBJCOPY})
set(hero_objdump ${CMAKE_OBJDUMP})
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_program(HERO_GNU_LD NAMES ld.bfd REQUIRED)
  find_program(HERO_GNU_OBJCOPY NAMES objcopy REQUIRED)
  find_program(HERO_GNU_OBJDUMP NAMES objdump REQUIRED)
  set(hero_ld ${HERO_GNU_LD})
  set(hero_objcopy ${HERO_GNU_OBJCOPY})
  set(hero_objdump ${HERO_GNU_OBJDUMP})
endif()

# has_avx512() of cmake/run.sh looks for the same
set(hero_avx512 ${HERO_AVX512})
if(HERO_AVX512 STREQUAL "AUTO" AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo hero_avx512 REGEX "^flags.* avx512vl" LIMIT_COUNT 1)
endif()
if(NOT hero_avx512)
  message(STATUS "hero: no kernels for AVX-512 (HERO_AVX512=ON builds them)")
  file(REMOVE ${PROJECT_BINARY_DIR}/libhero_cpu_v4.a) # of a build that had them
  return()
endif()

set(sources "")
foreach(source IN LISTS hero_kernels)
  # not: what chooses, what has its instructions by attribute, what compares, moves or adds up integers, or
  # takes numbers one at a time
  if(NOT source MATCHES
     "/(basic_kernels|level|gemm_bf16_kernel|gemm_bf16_pack|gemm_bf16_windows|groups_bf16|gemm_amx|gemm_bfmmla|map_int32|map_int64|map_uint8|moves|move_blocks|indexing|scatter|nonzero|sort|arg_reduce|scan|weigh|grid_sample|im2col)\\.cpp$")
    list(APPEND sources ${source})
  endif()
endforeach()
add_library(hero_cpu_v4_objects OBJECT EXCLUDE_FROM_ALL ${sources})
target_compile_options(hero_cpu_v4_objects PRIVATE -march=x86-64-v4 -mtune=generic
                       # without the kind of symbol that objcopy does not make local; clang has none
                       $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
target_compile_definitions(hero_cpu_v4_objects PRIVATE HERO_CPU_KERNELS=kernels_v4)
target_compile_features(hero_cpu_v4_objects PRIVATE cxx_std_20)
target_include_directories(hero_cpu_v4_objects PRIVATE ${hero_include_dir})
set_target_properties(hero_cpu_v4_objects PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
hero_standard_headers(hero_cpu_v4_objects OWN)
hero_batches_of(hero_cpu_v4_objects)

set(joined ${PROJECT_BINARY_DIR}/hero_cpu_v4.o)
set(objects "$<FILTER:$<TARGET_OBJECTS:hero_cpu_v4_objects>,INCLUDE,o$>") # not the precompiled headers
add_custom_command(
  OUTPUT ${joined}
  COMMAND ${hero_ld} -r --force-group-allocation -o ${joined}.all ${objects}
  COMMAND ${hero_objcopy} --wildcard --keep-global-symbol=*10kernels_v4Ev ${joined}.all ${joined}
  COMMAND ${CMAKE_COMMAND} -E rm ${joined}.all
  DEPENDS hero_cpu_v4_objects ${objects}
  COMMENT "Joining the kernels for x86-64-v4"
  COMMAND_EXPAND_LISTS VERBATIM)

# A library of its own, too: a program whose target has the property HERO_ONE_LEVEL is linked without it.
add_library(hero_cpu_v4 STATIC ${joined})
set_target_properties(hero_cpu_v4 PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME cpu_v4)
target_link_libraries(hero_cpu_v4 INTERFACE hero_cpu_kernels)
set(hero_v4_table _ZN4hero4core3cpu10kernels_v4Ev)
hero_comes_along(hero_cpu_v4 ${hero_v4_table} HERO_ONE_LEVEL HERO_BASIC_KERNELS)

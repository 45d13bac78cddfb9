# tests/cuda twice: hero_test_cuda over tests/cusim, which runs the kernels of cuda/ on the CPU, and,
# where the toolkit is, hero_test_gpu over the backend itself, whose tests skip without a GPU.
file(GLOB cusim_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cusim/*.cpp)
file(GLOB cusim_nccl CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cusim/nccl*.cpp) # sums as dist does
list(REMOVE_ITEM cusim_sources ${cusim_nccl})
set(wrapped "")
foreach(source IN LISTS hero_cuda_sources)
  cmake_path(GET source FILENAME file)
  set(wrapper ${CMAKE_CURRENT_BINARY_DIR}/cusim/${file}.cpp)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${source}\"\n")
  list(APPEND wrapped ${wrapper})
endforeach()
add_library(hero_cuda_sim STATIC EXCLUDE_FROM_ALL ${cusim_sources} ${wrapped})
set_target_properties(hero_cuda_sim PROPERTIES UNITY_BUILD OFF) # kernels of one name, as nvcc allows
target_include_directories(hero_cuda_sim SYSTEM BEFORE
                           PUBLIC ${PROJECT_SOURCE_DIR}/tests/cusim/include)
target_compile_options(hero_cuda_sim PRIVATE $<$<CONFIG:Release>:-O1> -Wno-pedantic
                       -Wno-unknown-pragmas)
# plain loops over products, and what changes from thread to thread, are most of what a network costs there
set_source_files_properties(
  ${PROJECT_SOURCE_DIR}/tests/cusim/cublaslt.cpp ${PROJECT_SOURCE_DIR}/tests/cusim/cusim.cpp
  ${PROJECT_SOURCE_DIR}/tests/cusim/fibre.cpp ${CMAKE_CURRENT_BINARY_DIR}/cusim/attention_plain.cu.cpp
  PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3> SKIP_PRECOMPILE_HEADERS ON)
target_link_libraries(hero_cuda_sim PUBLIC hero_core)
hero_standard_headers(hero_cuda_sim OWN)
target_link_options(hero_cuda_sim INTERFACE LINKER:--undefined=hero_cuda_registered)

# the nccl backend over that NCCL
set(wrapped "")
foreach(source IN LISTS hero_nccl_sources)
  cmake_path(GET source FILENAME file)
  set(wrapper ${CMAKE_CURRENT_BINARY_DIR}/cusim/nccl_${file})
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${source}\"\n")
  list(APPEND wrapped ${wrapper})
endforeach()
add_library(hero_nccl_sim STATIC EXCLUDE_FROM_ALL ${cusim_nccl} ${wrapped})
target_compile_options(hero_nccl_sim PRIVATE $<$<CONFIG:Release>:-O1>)
target_link_libraries(hero_nccl_sim PUBLIC hero_dist hero_cuda_sim ${CMAKE_DL_LIBS})
target_link_options(hero_nccl_sim INTERFACE LINKER:--undefined=hero_nccl_registered)

# The sanitizers make these programs from nothing once more, which takes long: by name there
# (tests/run --preset asan cuda).
if(HERO_SANITIZE)
  set(hero_test_extra ON)
endif()
hero_test_program(hero_test_cuda cuda cuda hero_nccl_sim)
# for tests that tell cusim what to do
target_compile_definitions(hero_test_cuda PRIVATE HERO_TEST_CUSIM)
target_link_libraries(hero_test_cuda PRIVATE hero_op_tables hero_layer_tables hero::cpu)

# every block of freed memory goes back to the driver, as under the address sanitizer
if(NOT HERO_SANITIZE)
  add_test(NAME "cuda: nccl without a cache" COMMAND hero_test_cuda "nccl:*")
  set_tests_properties("cuda: nccl without a cache" PROPERTIES LABELS "cuda;slow" TIMEOUT 3600
                                                               ENVIRONMENT HERO_CUDA_CACHE=0)
endif()

# the nccl backend between processes
if(NOT HERO_SANITIZE)
  add_executable(hero_nccl_ranks ${PROJECT_SOURCE_DIR}/tests/cuda/nccl/mpi/ranks.cpp)
  target_include_directories(hero_nccl_ranks PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(hero_nccl_ranks PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(hero_nccl_ranks PRIVATE HERO_TEST_CUSIM)
  target_link_libraries(hero_nccl_ranks PRIVATE hero_nccl_sim Threads::Threads)
  add_dependencies(hero_tests_of_cuda hero_nccl_ranks)
  add_dependencies(hero_test_cuda hero_nccl_ranks)
  foreach(case IN ITEMS nccl nccl_hosts nccl_hosts8 nccl_failures nccl_devices)
    set(name "cuda: processes under mpirun, ${case}")
    add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_mpi ${case}
                                  $<TARGET_FILE:hero_nccl_ranks> "${HERO_MPIEXEC}")
    set(label cuda)
    if(case STREQUAL "nccl_hosts8") # more ranks, other hosts
      set(label stress)
    elseif(case MATCHES "^nccl(_failures)?$")
      list(APPEND label slow)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT 3600 SKIP_RETURN_CODE 77)
  endforeach()
endif()

# What tests/peers/cores times; tests/peers/train builds the first with the instructions of its machine.
foreach(program IN ITEMS train cores)
  add_executable(hero_${program} ${PROJECT_SOURCE_DIR}/tests/peers/programs/${program}_hero.cpp)
  target_include_directories(hero_${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(hero_${program} PRIVATE hero::dist)
endforeach()

# the benchmark, whose every line runs over tests/cusim
file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cuda/bench/bench_*.cpp)
add_library(hero_bench_gpu_objects OBJECT EXCLUDE_FROM_ALL ${bench_sources})
set_target_properties(hero_bench_gpu_objects PROPERTIES UNITY_BUILD OFF) # each file has its helpers
target_link_libraries(hero_bench_gpu_objects PRIVATE hero::nn hero::optim)
if(NOT HERO_SANITIZE)
  add_executable(hero_bench_gpu_cusim $<TARGET_OBJECTS:hero_bench_gpu_objects>)
  target_link_libraries(hero_bench_gpu_cusim PRIVATE hero::nn hero::optim hero_cuda_sim)
  add_dependencies(hero_tests_of_cuda hero_bench_gpu_cusim hero_train hero_cores)
  add_test(NAME "cusim: the GPU's benchmark" COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_bench_gpu
                                                     $<TARGET_FILE:hero_bench_gpu_cusim>)
  set_tests_properties("cusim: the GPU's benchmark" PROPERTIES LABELS "cusim;slow" TIMEOUT 3600)
  add_test(NAME "cusim: many cores"
           COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_cores $<TARGET_FILE:hero_train> $<TARGET_FILE:hero_cores>)
  set_tests_properties("cusim: many cores" PROPERTIES LABELS "cusim;slow" TIMEOUT 600 SKIP_RETURN_CODE 77)
  set(simulation ${PROJECT_SOURCE_DIR}/tests/scripts/test_run_gpu_cusim)
  add_test(NAME "cusim: a GPU's figures" COMMAND ${simulation} $<TARGET_FILE:hero_bench_gpu_cusim>)
  set_tests_properties("cusim: a GPU's figures" PROPERTIES LABELS "cusim;slow" TIMEOUT 3600)
  add_test(NAME "cuda: a GPU's tests file by file"
           COMMAND ${simulation} $<TARGET_FILE:hero_bench_gpu_cusim> $<TARGET_FILE:hero_test_cuda>
                   $<TARGET_FILE:hero_nccl_ranks>)
  set_tests_properties("cuda: a GPU's tests file by file" PROPERTIES LABELS "cuda;slow" TIMEOUT 3600)
endif()

if(HERO_HAS_CUDA)
  if(NOT HERO_CUDA STREQUAL "ON" OR NOT hero_gpus) # else the preset `cuda`, where there is a GPU
    set(hero_test_extra ON)
  endif()
  hero_test_program(hero_test_gpu cuda gpu hero::dist hero::cuda)
  target_link_libraries(hero_test_gpu PRIVATE hero_op_tables hero_layer_tables hero::cpu)
  add_executable(hero_bench_gpu EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hero_bench_gpu_objects>)
  target_link_libraries(hero_bench_gpu PRIVATE hero::hero)
  set(hero_programs_gpu hero_test_gpu hero_bench_gpu hero_train hero_cores)
  # Ranks that are processes. Of the programs that travel this alone has MPI: its own transport.cpp takes the
  # place of the library's, which is compiled alone for that.
  if(HERO_GPU_PACKED AND TARGET hero_nccl)
    set(MPI_CXX_SKIP_MPICXX TRUE) # the C interface only
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  if(HERO_GPU_PACKED AND MPI_CXX_FOUND)
    set(transport ${PROJECT_SOURCE_DIR}/dist/backends/mpi/transport.cpp)
    set_source_files_properties(${transport} TARGET_DIRECTORY hero_dist
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    add_executable(hero_nccl_ranks_gpu EXCLUDE_FROM_ALL
                   ${PROJECT_SOURCE_DIR}/tests/cuda/nccl/mpi/ranks.cpp ${transport})
    set_target_properties(hero_nccl_ranks_gpu PROPERTIES UNITY_BUILD OFF)
    target_include_directories(hero_nccl_ranks_gpu PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_include_directories(hero_nccl_ranks_gpu SYSTEM PRIVATE ${HERO_NCCL_INCLUDE}
                                                                  ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(hero_nccl_ranks_gpu PRIVATE hero_nccl hero::cpu Threads::Threads)
    hero_use_mpi(hero_nccl_ranks_gpu)
    list(APPEND hero_programs_gpu hero_nccl_ranks_gpu)
  endif()
  if(HERO_GPU_PACKED) # programs that travel (tests/gpu/prepare.sh)
    foreach(program IN LISTS hero_programs_gpu)
      target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/gpu/old_glibc.cpp)
      set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/gpu/old_glibc.cpp
                                  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      target_link_options(${program} PRIVATE -static-libstdc++ -static-libgcc)
    endforeach()
  endif()
  if(TARGET hero_nccl)
    target_link_libraries(hero_test_gpu PRIVATE hero_nccl)
    target_include_directories(hero_test_gpu SYSTEM PRIVATE ${HERO_NCCL_INCLUDE}
                                                            ${CUDAToolkit_INCLUDE_DIRS})
  endif()
endif()

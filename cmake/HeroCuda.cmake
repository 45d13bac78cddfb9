# The CUDA backend where there are a toolkit and a GPU (HERO_CUDA=AUTO; with ON where there is a toolkit), else
# cuda/stub.cpp, which has no devices and says what to do. Its kernels are nearly half of what the whole library
# takes to compile, and on a machine without a GPU nothing runs them: tests run their sources over tests/cusim.
# Files with kernels, or with templates of them, are cuda/*.cu; all others are .cpp, which take the
# host's compiler a third of the time that nvcc needs. Included at file scope: a language cannot be enabled in a function.

set(HERO_HAS_CUDA OFF)
if(HERO_CUDA STREQUAL "ON" AND HERO_SANITIZE)
  # the blank in front keeps CMake from breaking the line
  message(FATAL_ERROR " hero: HERO_CUDA=ON with HERO_SANITIZE: the sanitizers do not know GPUs; "
                      "configure with HERO_CUDA=OFF (tests run the kernels on the CPU)")
endif()
# has_gpu() of cmake/run.sh looks for the same files
file(GLOB hero_gpus /dev/nvidia[0-9]* /dev/dxg)
if(HERO_CUDA STREQUAL "AUTO" AND NOT hero_gpus)
  message(STATUS "hero: no GPU found, no CUDA backend (HERO_CUDA=ON builds it where a toolkit is)")
elseif(NOT HERO_CUDA STREQUAL "OFF" AND NOT HERO_SANITIZE)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(hero_nvcc nvcc HINTS /usr/local/cuda/bin)
    if(hero_nvcc)
      set(CMAKE_CUDA_COMPILER ${hero_nvcc})
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures (90: H100, H200)")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12)
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(HERO_HAS_CUDA ON)
  elseif(HERO_CUDA STREQUAL "ON")
    message(FATAL_ERROR " hero: HERO_CUDA=ON, but no CUDA toolkit (12 or newer) was found; install "
                        "it, name its compiler with -DCMAKE_CUDA_COMPILER=.../bin/nvcc, or "
                        "configure with HERO_CUDA=AUTO")
  else()
    message(STATUS "hero: no CUDA toolkit found, no CUDA backend")
  endif()
endif()

file(CREATE_LINK ${PROJECT_SOURCE_DIR}/cuda ${hero_include_dir}/hero/cuda SYMBOLIC)
file(GLOB_RECURSE hero_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/*.cu
     ${PROJECT_SOURCE_DIR}/cuda/*.cpp)
list(REMOVE_ITEM hero_cuda_sources ${PROJECT_SOURCE_DIR}/cuda/stub.cpp)

# hero_cuda_flags(target): how the files of cuda/ are compiled. As everywhere, the compiler does not
# decide bits (--fmad=false). The standard is named here since CMake 3.25 does not know nvcc 13.
function(hero_cuda_flags target)
  target_compile_options(
    ${target}
    PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20
            --fmad=false
            --expt-relaxed-constexpr
            --diag-suppress=39
            -Xcompiler=-Wall,-ffp-contract=off>)
  # A tenth of the bytes; drivers since 550 unpack it.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
  if(HERO_WERROR)
    target_compile_options(${target}
                           PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
endfunction()

if(HERO_HAS_CUDA)
  add_library(hero_cuda STATIC ${hero_cuda_sources})
  hero_cuda_flags(hero_cuda)
  hero_standard_headers(hero_cuda)
  # what ptxas says of each kernel lies beside its object; tests/cuda/check_registers reads it
  set_target_properties(hero_cuda PROPERTIES CUDA_COMPILER_LAUNCHER
                                             ${PROJECT_SOURCE_DIR}/cmake/ptxas_report)
  target_link_libraries(hero_cuda PRIVATE CUDA::cudart_static)
else()
  add_library(hero_cuda STATIC ${PROJECT_SOURCE_DIR}/cuda/stub.cpp)
endif()
add_library(hero::cuda ALIAS hero_cuda)
set_target_properties(hero_cuda PROPERTIES EXPORT_NAME cuda)
target_link_libraries(hero_cuda PUBLIC hero_core)
# Nothing calls the registration: the linker takes it along because this symbol is asked for.
target_link_options(hero_cuda INTERFACE LINKER:--undefined=hero_cuda_registered)
target_link_libraries(hero INTERFACE hero_cuda)
set(hero_components ${hero_components} cuda CACHE INTERNAL "The components of the library")

# The nccl backend, a library of its own so that dist knows no CUDA: dist/backends/nccl/*.cpp where the
# toolkit and NCCL's header are. The library itself is loaded at run time. Without the header the
# backend is left out, and asking for it at run time says what is missing.
file(GLOB hero_nccl_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/dist/backends/nccl/*.cpp)

if(HERO_HAS_CUDA)
  find_path(HERO_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
            DOC "The folder of NCCL's nccl.h")
  if(HERO_NCCL_INCLUDE)
    add_library(hero_nccl STATIC ${hero_nccl_sources})
    add_library(hero::nccl ALIAS hero_nccl)
    set_target_properties(hero_nccl PROPERTIES EXPORT_NAME nccl)
    target_include_directories(hero_nccl SYSTEM PRIVATE ${HERO_NCCL_INCLUDE}
                                                        ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(hero_nccl PUBLIC hero_dist hero_cuda PRIVATE ${CMAKE_DL_LIBS})
    # as with hero_cuda: nothing calls the registration
    target_link_options(hero_nccl INTERFACE LINKER:--undefined=hero_nccl_registered)
    target_link_libraries(hero INTERFACE hero_nccl)
  else()
    message(STATUS "hero: no nccl.h found (Debian: libnccl-dev, or -DHERO_NCCL_INCLUDE=...), no "
                   "nccl backend")
  endif()
endif()

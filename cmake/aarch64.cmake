# The preset `aarch64`: 64-bit ARM by Debian's cross compiler (g++-aarch64-linux-gnu), whose programs
# qemu-user runs. Libraries for arm64 come from the folder that cmake/arm64_root fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH hero_arm64_root)
cmake_path(APPEND hero_arm64_root build arm64_root)
if(NOT EXISTS ${hero_arm64_root}/packages)
  message(FATAL_ERROR "hero: there are no libraries for arm64 in build/arm64_root; cmake/arm64_root brings them")
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/arm64_run)
set(CMAKE_FIND_ROOT_PATH ${hero_arm64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ZLIB_USE_STATIC_LIBS ON) # so that programs without ranks need no library of that folder

# Open MPI of that folder: the compiler wrapper that FindMPI would ask is this machine's. Its mpiexec is
# this machine's, too, and starts the emulator.
set(libraries ${hero_arm64_root}/usr/lib/aarch64-linux-gnu)
set(MPI_CXX_COMPILER_INCLUDE_DIRS ${libraries}/openmpi/include)
set(MPI_CXX_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY ${libraries}/openmpi/lib/libmpi.so)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}:${hero_arm64_root}/lib/aarch64-linux-gnu")

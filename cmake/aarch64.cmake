# The preset `aarch64`: 64-bit ARM by Debian's cross compiler (g++-aarch64-linux-gnu), whose programs
# qemu-user runs. Libraries for arm64 come from the folder that cmake/arm64_root fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

set(hero_arm64_root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64_root)
if(NOT EXISTS ${hero_arm64_root}/packages)
  message(FATAL_ERROR "hero: there are no libraries for arm64 in build/arm64_root; cmake/arm64_root brings them")
endif()
set(CMAKE_FIND_ROOT_PATH ${hero_arm64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ZLIB_USE_STATIC_LIBS ON) # so that programs need no library of that folder

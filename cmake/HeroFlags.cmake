# The flags with which every source of this project is compiled, tests and programs included.
# They are private to the project: a user of the library gets C++20 and an include folder, nothing
# else. For the same reason all arithmetic that decides results lives in .cpp files; a header that
# computed would be compiled with flags we do not know.

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# The libraries may become part of a shared one; their functions call each other directly even so.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# HERO_ARCH is the instruction set of everything, for experiments. Without it the library is for every
# x86-64 processor with AVX2, and has kernels for more beside (cmake/HeroLevels.cmake); under the
# sanitizers, which need no second copy, it is for this one.
set(hero_arch "${HERO_ARCH}")
set(HERO_LEVELS OFF)
if(NOT hero_arch AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  if(HERO_SANITIZE)
    set(hero_arch native)
  else()
    set(hero_arch x86-64-v3)
    set(HERO_LEVELS ON)
  endif()
endif()
set(hero_flags -fno-math-errno -fno-trapping-math -ffp-contract=off -fno-semantic-interposition)
# g++ collects its garbage each time that 128 MB more are in use, which takes an eighth of the time of the largest files;
# with a limit of 1 GB they take a quarter more memory.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND hero_flags --param=ggc-min-heapsize=1000000)
endif()
# Functions that a user's program never calls are left out of it (--gc-sections, cmake/HeroInstall.cmake).
list(APPEND hero_flags -ffunction-sections -fdata-sections)
if(hero_arch)
  # g++ 12 tunes Eigen's products badly for some Zen processors: generic tuning
  list(APPEND hero_flags -march=${hero_arch} -mtune=generic)
endif()
set(hero_warnings -Wall -Wextra -Wshadow -Wconversion -Wpedantic)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees overlapping copies, and copies beyond the end, in "text" + std::string (GCC bug
  # 105651), the latter where the standard library comes precompiled; the address sanitizer looks.
  # 13 and 14 see ends that no list has, and references to the name by which a function looks up what
  # it returns. -Wsequence-point takes half a minute for each class with as many levels of bases as a
  # backend has (core/device/backend.h), 91 of the 400 seconds of all that chapter 3 compiles; clang,
  # by which cmake/tidy reads every file, warns of the same.
  list(APPEND hero_warnings -Wno-array-bounds -Wno-sequence-point)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND hero_warnings -Wno-restrict -Wno-stringop-overflow)
  else()
    list(APPEND hero_warnings -Wno-dangling-reference)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # What clang warns of and g++ does not: each change of sign between sizes and int64_t; the same name in [name = name] and in
  # two files of a batch; conditions of lanes joined by & and |, which have no branches; words for g++'s optimiser, as ivdep
  # and noclone; and, within libstdc++ 12, what it deprecates.
  list(APPEND hero_warnings -Wno-sign-conversion -Wno-shadow -Wno-bitwise-instead-of-logical -Wno-unknown-pragmas
              -Wno-unknown-attributes -Wno-unknown-warning-option -Wno-deprecated-declarations)
endif()
# The sanitizers' and clang-tidy's batches, of files that are compiled apart otherwise, have warnings of their own, which
# are no errors.
if(HERO_WERROR AND NOT CMAKE_UNITY_BUILD)
  list(APPEND hero_warnings -Werror)
endif()
if(HERO_SANITIZE)
  list(APPEND hero_flags -fsanitize=${HERO_SANITIZE} -fno-sanitize-recover=all
              -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HERO_SANITIZE})
  if(HERO_SANITIZE MATCHES "address")
    add_compile_definitions(_GLIBCXX_ASSERTIONS)
  endif()
endif()
# nvcc has words of its own for all of these: cmake/HeroCuda.cmake
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${hero_flags};${hero_warnings}>")

# Release means -O3: CMake's own default is the same today, here it is a promise.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

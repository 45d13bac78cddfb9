# The flags with which every source of this project is compiled, tests and programs included.
# They are private to the project: a user of the library gets C++20 and an include folder, nothing
# else. For the same reason all arithmetic that decides results lives in .cpp files; a header that
# computed would be compiled with flags we do not know.

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# The libraries may become part of a shared one; their functions call each other directly even so.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# g++ 12 tunes Eigen's products badly for some Zen processors: the instruction set of this machine,
# but generic tuning.
set(hero_flags -march=${HERO_ARCH} -mtune=generic -fno-math-errno -fno-trapping-math
               -ffp-contract=off -fno-semantic-interposition)
set(hero_warnings -Wall -Wextra -Wshadow -Wconversion -Wpedantic)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies, and copies beyond the end, in "text" + std::string (GCC bug
  # 105651), the latter where the standard library comes precompiled; the address sanitizer looks.
  list(APPEND hero_warnings -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
# Batches of files have warnings of their own (types of a batch look like a header's): where all are
# errors, files are compiled one by one.
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

# The exercises: tutorials/exercises/NN_name/, each with the file that has gaps, our solution, hints, what
# grades an answer (grade.cpp, which has main(), and given.cpp), and wrong answers for the tests. Nothing here is part
# of `all`: ./tutorials/exercise builds `exercise_NN_name_given`, the file with gaps, and all that it needs, and
# then `exercise_NN_name`, the reader's file exercises/NN_name.cpp, each linked with the grader.
file(GLOB exercise_folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/exercises/[0-9][0-9]_*)

# What answers and graders read, compiled once. Both are compiled in seconds, and what they call is the library's.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/exercises/empty.cpp CONTENT "")
# An index beyond the end of a vector ends a program at once, with a text that the grade explains.
function(hero_exercise_flags target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tutorials ${hero_include_dir})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -O0 -fPIE)
  target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
endfunction()
add_library(exercise_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/exercises/empty.cpp)
hero_exercise_flags(exercise_headers)
set_target_properties(exercise_headers PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
target_precompile_headers(exercise_headers PRIVATE <list> <memory> <set> <vector> <hero/autograd/autograd.h> <hero/nn/nn.h>
                          <hero/optim/optim.h> <hero/dist/dist.h>)

# hero_grader(target library sources...): a library of a grader, which links `library`. Graders that use nothing of Hero
# link exercise_grade, and are compiled without its headers: their first grade takes seconds.
function(hero_grader target library)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${ARGN})
  hero_exercise_flags(${target})
  target_link_libraries(${target} PUBLIC ${library})
  if(NOT library STREQUAL exercise_grade)
    target_precompile_headers(${target} REUSE_FROM exercise_headers)
  endif()
endfunction()
set(support ${PROJECT_SOURCE_DIR}/tutorials/exercises/support)
add_library(exercise_grade STATIC EXCLUDE_FROM_ALL ${support}/grade.cpp)
hero_exercise_flags(exercise_grade)
hero_grader(exercise_support hero::autograd ${support}/arrays.cpp ${support}/compare.cpp)
target_link_libraries(exercise_support PUBLIC exercise_grade)
hero_grader(exercise_ranks exercise_support ${support}/ranks.cpp)
target_link_libraries(exercise_ranks PUBLIC hero_tutorial_ranks hero::cpu)

# What a compiler says of an answer: what finds mistakes, and no more. A gap leaves variables unused.
set(hero_answer_warnings -Wreturn-type -Wtype-limits -Wshadow -Wuninitialized -Wunused-value -Wunused-but-set-variable
                         -Wparentheses -Wempty-body -Wmisleading-indentation)
# Where all that an answer may call is arithmetic, products and systems of equations: sooner graded the first time.
set(hero_basic_exercises "^0[1-35]_")
# hero_answer(target exercise source): an answer linked with the grader of its exercise
function(hero_answer target exercise source)
  add_executable(${target} EXCLUDE_FROM_ALL ${source})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/exercises
                                             UNITY_BUILD OFF EXPORT_COMPILE_COMMANDS OFF HERO_ONE_LEVEL ON)
  if(exercise MATCHES "${hero_basic_exercises}" AND NOT HERO_ALL_KERNELS)
    set_target_properties(${target} PROPERTIES HERO_BASIC_KERNELS ON)
  endif()
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${hero_flags};${hero_answer_warnings}")
  hero_exercise_flags(${target})
  target_link_libraries(${target} PRIVATE exercise_${exercise}_library)
  get_target_property(library exercise_${exercise}_library LINK_LIBRARIES)
  if(NOT library STREQUAL exercise_grade)
    target_precompile_headers(${target} REUSE_FROM exercise_headers)
  endif()
endfunction()
# hero_given_answer(target exercise source): one that is not the reader's, of which a compiler has nothing to say
function(hero_given_answer target exercise source)
  hero_answer(${target} ${exercise} ${source})
  if(HERO_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

foreach(folder IN LISTS exercise_folders)
  cmake_path(GET folder FILENAME exercise)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/grade.cpp ${folder}/given.cpp)
  # no more of the library than an exercise uses: the first ones are built in two minutes
  set(library exercise_grade)
  foreach(source IN LISTS sources ITEMS ${folder}/exercise.h)
    file(STRINGS ${source} uses REGEX "<hero/|compare\\.h|arrays\\.h")
    if(uses)
      set(library exercise_support)
    endif()
  endforeach()
  file(STRINGS ${folder}/exercise.h uses REGEX "<hero/dist/|data_parallel\\.h")
  if(uses)
    set(library exercise_ranks)
  endif()
  hero_grader(exercise_${exercise}_library ${library} ${sources})
  set(library exercise_${exercise}_library)
  file(STRINGS ${folder}/grade.cpp uses REGEX "<hero/optim/")
  if(uses)
    target_link_libraries(${library} PUBLIC hero::optim)
  endif()
  file(STRINGS ${folder}/exercise.h uses REGEX "lessons/engine\\.h")
  if(uses)
    target_sources(${library} PRIVATE ${PROJECT_SOURCE_DIR}/tutorials/support/lessons/engine.cpp)
  endif()
  hero_given_answer(exercise_${exercise}_given ${exercise} ${folder}/gaps.cpp)
  set(answer ${PROJECT_SOURCE_DIR}/exercises/${exercise}.cpp)
  set_source_files_properties(${answer} PROPERTIES GENERATED ON) # copied there by tutorials/exercise
  hero_answer(exercise_${exercise} ${exercise} ${answer})
endforeach()

if(NOT HERO_TESTS OR HERO_SANITIZE OR CMAKE_CROSSCOMPILING)
  return()
endif()

# Every file with gaps is graded "not yet", every solution "done", and every wrong answer gets the sentence that its
# first line names. Tests build what they grade; two builds in one tree at once would disturb each other.
foreach(folder IN LISTS exercise_folders)
  cmake_path(GET folder FILENAME exercise)
  hero_given_answer(exercise_${exercise}_solution ${exercise} ${folder}/solution.cpp)
  file(GLOB mistakes CONFIGURE_DEPENDS ${folder}/wrong/*.cpp)
  foreach(mistake IN LISTS mistakes)
    cmake_path(GET mistake STEM answer)
    hero_answer(exercise_${exercise}_${answer} ${exercise} ${mistake})
  endforeach()
  foreach(label IN ITEMS exercises exercise_mistakes)
    set(name "${label}: ${exercise}")
    add_test(NAME ${name}
             COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/check_grades ${label} ${exercise} ${PROJECT_BINARY_DIR})
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 3600 RESOURCE_LOCK tree COST 100)
  endforeach()
endforeach()

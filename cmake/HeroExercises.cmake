# The exercises: tutorials/exercises/NN_name/, each with the file that has gaps, our solution, hints, what
# grades an answer (grade.cpp, which has main(), and given.cpp), and wrong answers for the tests. Nothing here is part
# of `all`: ./tutorials/exercise builds `exercise_NN_name_given`, the file with gaps, and all that it needs, and
# then `exercise_NN_name`, the reader's file exercises/NN_name.cpp, each linked with the grader.
file(GLOB exercise_folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tutorials/exercises/[0-9][0-9]_*)

# What all answers read, compiled once. An answer is compiled in seconds, and what it calls is the library's.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/exercises/empty.cpp CONTENT "")
function(hero_answer_flags target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF EXPORT_COMPILE_COMMANDS OFF HERO_ONE_LEVEL ON)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tutorials ${hero_include_dir})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -O0 -fPIE -w) # a gap leaves names unused
endfunction()
add_library(exercise_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/exercises/empty.cpp)
hero_answer_flags(exercise_headers)
target_precompile_headers(exercise_headers PRIVATE <list> <memory> <set> <vector> <hero/autograd/autograd.h> <hero/nn/nn.h>
                          <hero/optim/optim.h> <hero/dist/dist.h>)

set(support ${PROJECT_SOURCE_DIR}/tutorials/exercises/support)
add_library(exercise_support STATIC EXCLUDE_FROM_ALL ${support}/grade.cpp ${support}/compare.cpp)
add_library(exercise_ranks STATIC EXCLUDE_FROM_ALL ${support}/ranks.cpp)
target_link_libraries(exercise_support PUBLIC hero::autograd)
target_link_libraries(exercise_ranks PUBLIC exercise_support hero_tutorial_ranks hero::cpu)
foreach(library IN ITEMS exercise_support exercise_ranks)
  target_include_directories(${library} PUBLIC ${PROJECT_SOURCE_DIR}/tutorials)
  target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-O1>)
  hero_standard_headers(${library} hero_core)
endforeach()

# hero_answer(target exercise source): an answer linked with the grader of its exercise
function(hero_answer target exercise source)
  add_executable(${target} EXCLUDE_FROM_ALL ${source})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/exercises)
  hero_answer_flags(${target})
  target_precompile_headers(${target} REUSE_FROM exercise_headers)
  target_link_libraries(${target} PRIVATE exercise_${exercise}_library)
endfunction()

foreach(folder IN LISTS exercise_folders)
  cmake_path(GET folder FILENAME exercise)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/grade.cpp ${folder}/given.cpp)
  set(library exercise_${exercise}_library)
  add_library(${library} STATIC EXCLUDE_FROM_ALL ${sources})
  target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-O1>)
  hero_standard_headers(${library} hero_core)
  # no more of the library than an exercise uses: the first ones are built in two minutes
  file(STRINGS ${folder}/exercise.h uses REGEX "<hero/dist/|data_parallel\\.h")
  if(uses)
    target_link_libraries(${library} PUBLIC exercise_ranks)
  else()
    target_link_libraries(${library} PUBLIC exercise_support)
  endif()
  file(STRINGS ${folder}/grade.cpp uses REGEX "<hero/optim/")
  if(uses)
    target_link_libraries(${library} PUBLIC hero::optim)
  endif()
  file(STRINGS ${folder}/exercise.h uses REGEX "lessons/engine\\.h")
  if(uses)
    target_sources(${library} PRIVATE ${PROJECT_SOURCE_DIR}/tutorials/support/lessons/engine.cpp)
  endif()
  hero_answer(exercise_${exercise}_given ${exercise} ${folder}/gaps.cpp)
  set(answer ${PROJECT_SOURCE_DIR}/exercises/${exercise}.cpp)
  set_source_files_properties(${answer} PROPERTIES GENERATED ON) # copied there by tutorials/exercise
  hero_answer(exercise_${exercise} ${exercise} ${answer})
endforeach()

if(NOT HERO_TESTS OR HERO_SANITIZE OR CMAKE_CROSSCOMPILING)
  return()
endif()

# Every file with gaps is graded "not yet", every solution "done", and every wrong answer gets the sentence that its
# first line names. Tests build what they grade; two builds in one tree at once would disturb each other.
add_custom_target(hero_exercise_answers)
add_test(NAME "exercises: files with gaps and solutions compile"
         COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target hero_exercise_answers)
set_tests_properties("exercises: files with gaps and solutions compile" PROPERTIES LABELS exercises TIMEOUT 3600
                     RESOURCE_LOCK tree FIXTURES_SETUP hero_exercise_answers)

# hero_whole_text(out file text): the file of a whole grade, where there is one, in place of the text
function(hero_whole_text out file text)
  set(${out} "${text}" PARENT_SCOPE)
  if(EXISTS ${file})
    set(${out} ${file} PARENT_SCOPE)
  endif()
endfunction()

# hero_grade_test(exercise answer status says): the grade of this answer, whose target is there
function(hero_grade_test exercise answer status says)
  set(program ${PROJECT_BINARY_DIR}/exercises/exercise_${exercise}_${answer})
  add_test(NAME "exercises: ${exercise}, ${answer}"
           COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/check_grade ${status} "${says}" ${program})
  set_tests_properties("exercises: ${exercise}, ${answer}" PROPERTIES LABELS exercises TIMEOUT 600
                       FIXTURES_REQUIRED hero_exercise_answers)
  add_dependencies(hero_exercise_answers exercise_${exercise}_${answer})
endfunction()

foreach(folder IN LISTS exercise_folders)
  cmake_path(GET folder FILENAME exercise)
  hero_answer(exercise_${exercise}_solution ${exercise} ${folder}/solution.cpp)
  hero_grade_test(${exercise} given 3 "not yet: to be written is")
  hero_whole_text(says ${folder}/graded.txt "All is right: this exercise is done.")
  hero_grade_test(${exercise} solution 0 "${says}")
  file(GLOB mistakes CONFIGURE_DEPENDS ${folder}/wrong/*.cpp)
  foreach(mistake IN LISTS mistakes)
    cmake_path(GET mistake STEM answer)
    file(STRINGS ${mistake} says LIMIT_COUNT 1)
    string(REGEX REPLACE "^// says: " "" says "${says}")
    hero_whole_text(says ${folder}/wrong/${answer}.txt "${says}")
    hero_answer(exercise_${exercise}_${answer} ${exercise} ${mistake})
    set(name "exercise_mistakes: ${exercise}, ${answer}")
    add_test(NAME ${name}
             COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/check_grade --build ${PROJECT_BINARY_DIR} 1 "${says}"
                     ${PROJECT_BINARY_DIR}/exercises/exercise_${exercise}_${answer})
    set_tests_properties(${name} PROPERTIES LABELS exercise_mistakes TIMEOUT 3600 RESOURCE_LOCK tree)
  endforeach()
endforeach()

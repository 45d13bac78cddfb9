# Files of tests are compiled several at a time: most of the time of one goes into what all of them
# instantiate (8 files of tests/dist: 8 s of CPU together, 27 s one by one). A batch first includes what
# its files include, then each of them in a namespace of its own, so that files may use the same names
# for their helpers. What opens a namespace, specialises or includes after #if or #define stays alone.

set(HERO_TEST_BATCH 16 CACHE STRING "How many files of tests are compiled at a time; 1: each alone")

include(join_tests) # hero_can_join()

# hero_batches(out name sources...): what a program `name` of these sources compiles
function(hero_batches out name)
  set(compiled "")
  set(joined "")
  foreach(source IN LISTS ARGN)
    hero_can_join(can_join ${source})
    if(can_join AND HERO_TEST_BATCH GREATER 1)
      list(APPEND joined ${source})
    else()
      list(APPEND compiled ${source})
    endif()
  endforeach()
  set(number 0)
  while(joined)
    list(SUBLIST joined 0 ${HERO_TEST_BATCH} files)
    list(REMOVE_ITEM joined ${files})
    math(EXPR number "${number} + 1")
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/batches/${name}_${number}.cpp)
    string(REPLACE ";" "," list "${files}")
    add_custom_command(
      OUTPUT ${batch}
      COMMAND ${CMAKE_COMMAND} -DBATCH=${batch} -DFILES=${list} -P
              ${PROJECT_SOURCE_DIR}/cmake/join_tests.cmake
      DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/join_tests.cmake
      VERBATIM)
    list(APPEND compiled ${batch})
  endwhile()
  set(${out} "${compiled}" PARENT_SCOPE)
endfunction()

# cmake -DPROGRAM=... -DEMULATOR=... -DEXPECTED=file.txt -DSCRATCH=dir -P check_text.cmake
# Runs a program, by EMULATOR where it is not empty, in an empty scratch folder and compares what it
# prints with a file, to the byte. A first line "# args: ..." in the file holds the program's options
# and is not compared. Without options, the figures that it drew must be those of docs/figures.
cmake_minimum_required(VERSION 3.25)

file(READ ${EXPECTED} expected)
set(options "")
if(expected MATCHES "^# args:([^\n]*)\n")
  separate_arguments(options UNIX_COMMAND "${CMAKE_MATCH_1}")
  string(FIND "${expected}" "\n" end)
  math(EXPR begin "${end} + 1")
  string(SUBSTRING "${expected}" ${begin} -1 expected)
endif()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
execute_process(COMMAND ${EMULATOR} ${PROGRAM} ${options} WORKING_DIRECTORY ${SCRATCH}
                OUTPUT_VARIABLE printed ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ${options} ended with ${result}\n${printed}\n${errors}")
endif()
if(NOT "${printed}" STREQUAL "${expected}")
  file(WRITE ${SCRATCH}/expected.txt "${expected}")
  file(WRITE ${SCRATCH}/printed.txt "${printed}")
  execute_process(COMMAND diff -u expected.txt printed.txt WORKING_DIRECTORY ${SCRATCH}
                  OUTPUT_VARIABLE difference)
  message(NOTICE "${difference}") # as it is; an error's text would be laid out anew
  message(FATAL_ERROR "the printed text is not ${EXPECTED}")
endif()
if(options STREQUAL "" AND FIGURES AND EXISTS ${SCRATCH}/figures)
  execute_process(COMMAND ${FIGURES} --drawn ${SCRATCH}/figures OUTPUT_VARIABLE difference
                  RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(NOTICE "${difference}")
    message(FATAL_ERROR "figures of the pages are not what the program draws; "
                        "tutorials/run --update-figures writes them anew")
  endif()
endif()

# cmake -DPROGRAM=... -DEMULATOR=... -DLABEL=... -DLIST=... -DCATCH_VERSION=... -P discover_tests.cmake
# Asks a Catch2 program, which EMULATOR runs where it is not empty, for its test cases and writes one add_test() for each, labelled with the
# label. The tag [stress] becomes a label too, which Catch2's own script cannot do; the label `threads`
# has the cases of that tag alone; and a program that crashes while it is asked is an error here, not
# an empty list.

cmake_minimum_required(VERSION 3.25)

if(CATCH_VERSION VERSION_LESS 3)
  set(list_options --list-test-names-only)
  set(strict " --warn NoTests") # a name that matches nothing fails; version 3 does so by itself
else()
  set(list_options --list-tests --verbosity quiet)
  set(strict "")
endif()

# names_of(<out> spec...): the test cases that match the spec, in the program's order
function(names_of out)
  execute_process(COMMAND ${EMULATOR} ${PROGRAM} ${ARGN} ${list_options} OUTPUT_VARIABLE text
                  ERROR_VARIABLE errors RESULT_VARIABLE result)
  if(NOT result MATCHES "^[0-9]+$") # Catch2 v2 exits with the number of tests
    message(FATAL_ERROR "${PROGRAM} failed while it listed its tests: ${result}\n${errors}")
  endif()
  # these characters mean something in a CMake list; decode() gives them back
  string(REPLACE ";" "<semicolon>" text "${text}")
  string(REPLACE "[" "<open>" text "${text}")
  string(REPLACE "]" "<close>" text "${text}")
  string(REPLACE "\\" "<backslash>" text "${text}")
  string(REPLACE "\n" ";" text "${text}")
  list(REMOVE_ITEM text "")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(decode out name)
  string(REPLACE "<semicolon>" ";" name "${name}")
  string(REPLACE "<open>" "[" name "${name}")
  string(REPLACE "<close>" "]" name "${name}")
  string(REPLACE "<backslash>" "\\" name "${name}")
  set(${out} "${name}" PARENT_SCOPE)
endfunction()

set(tag "")
if(LABEL STREQUAL "threads")
  set(tag "[threads]")
endif()
set(visible "")
if(EMULATOR) # it runs no children of a process with threads, nor within limits of memory
  string(APPEND tag "~[process]")
  set(visible "~[.]") # a pattern that only leaves out brings hidden cases
endif()
names_of(all ${tag}${visible})
names_of(stress "${tag}[stress]")
if(NOT all AND NOT stress)
  message(FATAL_ERROR "${PROGRAM} has no test cases")
endif()
list(APPEND all ${stress}) # a hidden stress case is in no default list
list(REMOVE_DUPLICATES all)

set(skip "")
if(LABEL MATCHES "^(gpu|site)$") # these say so where there is no GPU, or no browser
  set(skip " SKIP_REGULAR_EXPRESSION [==[(^|\n)skipped: ]==]")
endif()
set(command "")
foreach(word IN LISTS EMULATOR PROGRAM)
  string(APPEND command " [==[${word}]==]")
endforeach()
set(script "")
foreach(item IN LISTS all)
  set(labels ${LABEL})
  if(item IN_LIST stress)
    string(APPEND labels ";stress")
  endif()
  decode(name "${item}")
  string(REGEX REPLACE "([],[\\])" "\\\\\\1" spec "${name}") # a name, not a pattern
  string(APPEND script "add_test([==[${LABEL}: ${name}]==]${command} "
                       "[==[${spec}]==]${strict})\n"
                       "set_tests_properties([==[${LABEL}: ${name}]==] PROPERTIES LABELS "
                       "\"${labels}\" TIMEOUT 3600${skip})\n")
endforeach()
file(WRITE ${LIST} "${script}")

# cmake -DBATCH=out.cpp -DFILES=a.cpp,b.cpp -P join_tests.cmake: writes the source that stands for these.
# Included by HeroTestBatches it defines hero_can_join().
cmake_minimum_required(VERSION 3.25)

# hero_can_join(out source): whether a file may be part of a batch
function(hero_can_join out source)
  file(STRINGS ${source} lines REGEX "^(#|namespace [A-Za-z0-9_:]+ {|extern |template <>)")
  set(conditional OFF)
  set(${out} ON PARENT_SCOPE)
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^#" OR (conditional AND line MATCHES "^# *include"))
      set(${out} OFF PARENT_SCOPE)
    elseif(NOT line MATCHES "^# *(include|pragma)")
      set(conditional ON)
    endif()
  endforeach()
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

string(REPLACE "," ";" FILES "${FILES}")

set(includes "")
set(namespaces "")
foreach(file IN LISTS FILES)
  hero_can_join(can_join ${file})
  if(NOT can_join) # it was edited since CMake made the batches
    message(FATAL_ERROR "${file} must be compiled alone now; touch tests/CMakeLists.txt and build again")
  endif()
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET file STEM stem)
  file(STRINGS ${file} lines REGEX "^# *include ")
  foreach(line IN LISTS lines)
    if(line MATCHES "\"(.*)\"")
      set(header ${folder}/${CMAKE_MATCH_1})
      if(EXISTS ${header}) # it lies beside the file
        set(line "#include \"${header}\"")
      endif()
    endif()
    list(APPEND includes "${line}")
  endforeach()
  # the headers are read by now, and their guards keep them out of the namespace
  string(APPEND namespaces "namespace of_${stem} {\n#include \"${file}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(WRITE ${BATCH} "${includes}\n${namespaces}")

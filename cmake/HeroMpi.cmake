# The mpi backend's library: Open MPI or MPICH, as CMake finds it. Without one the backend is built
# all the same, and asking for it at run time says what to install.

# hero_use_mpi(target): gives it the MPI that was found
function(hero_use_mpi target)
  target_compile_definitions(${target} PRIVATE HERO_HAS_MPI OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_include_directories(${target} SYSTEM PRIVATE ${MPI_CXX_INCLUDE_DIRS})
  # As one word: programs that never run ranks must not load the library, and an installed libhero
  # works with this very library or with none.
  string(REPLACE ";" "," libraries "${MPI_CXX_LIBRARIES}")
  separate_arguments(flags NATIVE_COMMAND "${MPI_CXX_LINK_FLAGS}")
  target_link_libraries(${target} PRIVATE ${flags}
                        "-Wl,--push-state,--as-needed,${libraries},--pop-state")
endfunction()

# hero_mpi(): gives hero_dist MPI, where it is there and wanted
function(hero_mpi)
  set(HERO_MPIEXEC "" CACHE INTERNAL "What starts the processes of an MPI world; empty: no MPI")
  if(HERO_MPI STREQUAL "OFF")
    return()
  endif()
  set(MPI_CXX_SKIP_MPICXX TRUE) # the C interface only
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    if(HERO_MPI STREQUAL "ON")
      # the blank in front keeps CMake from breaking the line
      message(FATAL_ERROR " hero: HERO_MPI=ON, but no MPI was found; install Debian's libopenmpi-dev "
                          "openmpi-bin (or libmpich-dev mpich), or configure with HERO_MPI=AUTO")
    endif()
    message(STATUS "hero: no MPI found (Debian: libopenmpi-dev openmpi-bin), no mpi backend")
    return()
  endif()
  hero_use_mpi(hero_dist)
  set(HERO_MPIEXEC "${MPIEXEC_EXECUTABLE}"
      CACHE INTERNAL "What starts the processes of an MPI world; empty: no MPI")
endfunction()

# hero_cluster_tests(): tests/cluster/run, hosts of this machine's own, a test a case
function(hero_cluster_tests)
  foreach(case IN ITEMS hashes tutorials slow late stop kill restart link link_of_mpirun timeout
                        slurm_hashes slurm_requeue)
    set(name "cluster: ${case}")
    add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/cluster/run --mpiexec "${HERO_MPIEXEC}"
                                  ${PROJECT_BINARY_DIR} ${case})
    # each counts seconds
    set_tests_properties(${name} PROPERTIES LABELS cluster TIMEOUT 3600 SKIP_RETURN_CODE 77
                                            RUN_SERIAL ON)
  endforeach()
endfunction()

# hero_mpi_tests(): tests/scripts/test_mpi and test_restarts with the processes of hero_mpi_ranks, a
# test a case
function(hero_mpi_tests)
  if(NOT TARGET hero_compress) # whose hooks the processes try, too
    return()
  endif()
  add_executable(hero_mpi_ranks ${PROJECT_SOURCE_DIR}/tests/dist/mpi/ranks.cpp)
  target_include_directories(hero_mpi_ranks PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(hero_mpi_ranks PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(hero_mpi_ranks PRIVATE hero::compress Threads::Threads)
  add_dependencies(hero_tests_of_components hero_mpi_ranks)
  add_dependencies(hero_test_dist hero_mpi_ranks)
  hero_started(ranks hero_mpi_ranks)
  set(native "")
  if(CMAKE_CROSSCOMPILING)
    set(native ${PROJECT_SOURCE_DIR}/build/release/tests/hero_mpi_ranks)
  endif()
  foreach(case IN ITEMS hashes strategies20 checks staging slices hosts groups messages bugs failures launch resume resume100)
    set(name "dist: processes under mpirun, ${case}")
    add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_mpi ${case} ${ranks}
                                  "${HERO_MPIEXEC}" ${native})
    set(labels dist)
    if(case MATCHES "^(strategies20|resume100)$") # the full forms of what `hashes` and `resume` do
      set(labels stress)
    elseif(NOT case MATCHES "^(hashes|checks|launch)$")
      list(APPEND labels slow)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 3600 SKIP_RETURN_CODE 77)
  endforeach()
  if(CMAKE_CROSSCOMPILING) # restarts need a process without other threads, and an emulator has some
    return()
  endif()
  foreach(case IN ITEMS rules mpirun_codes threads mpi_fixed mpi_elastic mpi_stopped threads20 mpi20)
    set(name "dist: programs that are started again, ${case}")
    add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts/test_restarts ${case}
                                  ${ranks} "${HERO_MPIEXEC}")
    set(labels dist slow)
    if(case MATCHES "20$") # twenty deaths in place of three
      set(labels stress)
    endif()
    # They wait more than they compute, and begin before the others.
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 1800 SKIP_RETURN_CODE 77 COST 50)
  endforeach()
endfunction()

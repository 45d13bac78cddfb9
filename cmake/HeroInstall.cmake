# cmake --install lays include/hero/<component>/*.h, the libraries, and what find_package(hero) and
# pkg-config read. All of it is the install component `dev`, programs are `tools`: cmake/HeroPackages.cmake
# makes a package of each.
include(CMakePackageConfigHelpers)

set(hero_libraries "")
foreach(component IN LISTS hero_components hero_extras)
  list(APPEND hero_libraries hero_${component})
endforeach()
foreach(library IN ITEMS hero_cpu_kernels hero_cpu_v4 hero_nccl)
  if(TARGET ${library})
    list(APPEND hero_libraries ${library})
  endif()
endforeach()
set(hero_programs "")
if(TARGET hero_plan_program)
  set(hero_programs hero_plan_program)
endif()

# Everything that is installed. After ./tutorials/run it is there; where it is not, as after ./tutorials/run 03, one line
# says what to build before any file is written.
add_custom_target(hero_installed DEPENDS ${hero_libraries} ${hero_programs})
if(TARGET hero_tutorials)
  add_dependencies(hero_tutorials hero_installed)
endif()
set(hero_check "set(missing \"\")")
foreach(component IN ITEMS dev tools)
  set(targets ${hero_libraries})
  if(component STREQUAL "tools")
    set(targets ${hero_programs})
  endif()
  foreach(target IN LISTS targets)
    string(APPEND hero_check "
if(NOT EXISTS \"$<TARGET_FILE:${target}>\" AND \"\${CMAKE_INSTALL_COMPONENT}\" MATCHES \"^(${component})?\$\")
  string(APPEND missing \" $<TARGET_FILE_NAME:${target}>\")
endif()")
  endforeach()
endforeach()
string(APPEND hero_check "
if(missing)
  message(FATAL_ERROR \" hero: not built yet:\${missing}; first call cmake --build ${CMAKE_BINARY_DIR} --target hero_installed\")
endif()")
install(CODE "${hero_check}" ALL_COMPONENTS)

set(left_out "")
string(REPLACE "|" ";" without "${hero_without}")
foreach(pattern IN LISTS without)
  string(REGEX REPLACE "/$" "(/|$)" pattern "${pattern}") # folders, too
  list(APPEND left_out REGEX "/${pattern}" EXCLUDE)
endforeach()
foreach(component IN LISTS hero_components)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${component} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hero
          COMPONENT dev FILES_MATCHING PATTERN "*.h"
          REGEX "/(${hero_private_folders})$" EXCLUDE
          REGEX "/(${hero_private_headers})$" EXCLUDE ${left_out})
endforeach()
target_link_options(hero_core INTERFACE $<INSTALL_INTERFACE:LINKER:--gc-sections>)
set(hero_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hero)
install(TARGETS hero hero_cpu ${hero_libraries} EXPORT hero-targets COMPONENT dev)
if(hero_programs)
  install(TARGETS ${hero_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()
install(EXPORT hero-targets NAMESPACE hero:: DESTINATION ${hero_cmake_dir} COMPONENT dev)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/hero-config.cmake.in ${PROJECT_BINARY_DIR}/hero-config.cmake
  INSTALL_DESTINATION ${hero_cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hero-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hero-config.cmake
              ${PROJECT_BINARY_DIR}/hero-config-version.cmake DESTINATION ${hero_cmake_dir} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)

# pkg-config's file names the libraries from dist down to core, as a linker reads them, and then what they need.
set(hero_pc_libs "-L\${libdir}")
if(TARGET hero_nccl)
  string(APPEND hero_pc_libs " -Wl,--undefined=hero_nccl_registered -lhero_nccl")
endif()
string(APPEND hero_pc_libs " -Wl,--undefined=hero_cuda_registered -lhero_cuda")
set(extras ${hero_extras})
list(REVERSE extras) # trainer uses compress
foreach(component IN ITEMS ${extras} dist optim nn autograd core)
  string(APPEND hero_pc_libs " -lhero_${component}")
endforeach()
if(TARGET hero_cpu_v4)
  string(APPEND hero_pc_libs " -Wl,--undefined=${hero_v4_table} -lhero_cpu_v4")
endif()
string(APPEND hero_pc_libs " -Wl,--undefined=${hero_kernels_table} -lhero_cpu_kernels -lhero_core")
get_target_property(uses hero_dist LINK_LIBRARIES)
list(FILTER uses INCLUDE REGEX "^-")
string(REPLACE ";" " " uses "${uses}")
string(APPEND hero_pc_libs " ${uses}")
if(HERO_HAS_CUDA)
  string(APPEND hero_pc_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
string(APPEND hero_pc_libs " -lz -pthread -Wl,--gc-sections")
file(RELATIVE_PATH hero_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/hero.pc.in ${PROJECT_BINARY_DIR}/hero.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/hero.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# cmake --install lays include/hero/<component>/*.h, the libraries, and what find_package(hero) and
# pkg-config read. All of it is the install component `dev`, programs are `tools`: cmake/HeroPackages.cmake
# makes a package of each.
include(CMakePackageConfigHelpers)

set(hero_installed hero hero_cpu)
foreach(component IN LISTS hero_components)
  list(APPEND hero_installed hero_${component})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${component} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hero
          COMPONENT dev FILES_MATCHING PATTERN "*.h"
          REGEX "/(${hero_private_folders})$" EXCLUDE)
endforeach()
foreach(library IN ITEMS hero_cpu_v4 hero_nccl)
  if(TARGET ${library})
    list(APPEND hero_installed ${library})
  endif()
endforeach()
target_link_options(hero_core INTERFACE $<INSTALL_INTERFACE:LINKER:--gc-sections>)
set(hero_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hero)
install(TARGETS ${hero_installed} EXPORT hero-targets COMPONENT dev)
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
foreach(component IN ITEMS dist optim nn autograd core)
  string(APPEND hero_pc_libs " -lhero_${component}")
endforeach()
if(TARGET hero_cpu_v4)
  string(APPEND hero_pc_libs " -Wl,--undefined=_ZN4hero4core3cpu10kernels_v4Ev -lhero_cpu_v4 -lhero_core")
endif()
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

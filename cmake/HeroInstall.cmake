# cmake --install lays include/hero/<component>/*.h, the libraries, and what find_package(hero) reads.
include(CMakePackageConfigHelpers)

set(hero_installed hero hero_cpu)
foreach(component IN LISTS hero_components)
  list(APPEND hero_installed hero_${component})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${component} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hero
          FILES_MATCHING PATTERN "*.h"
          REGEX "/(${hero_private_folders})$" EXCLUDE)
endforeach()
if(TARGET hero_nccl)
  list(APPEND hero_installed hero_nccl)
endif()
target_link_options(hero_core INTERFACE $<INSTALL_INTERFACE:LINKER:--gc-sections>)
set(hero_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hero)
install(TARGETS ${hero_installed} EXPORT hero-targets)
install(EXPORT hero-targets NAMESPACE hero:: DESTINATION ${hero_cmake_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/hero-config.cmake.in ${PROJECT_BINARY_DIR}/hero-config.cmake
  INSTALL_DESTINATION ${hero_cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hero-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hero-config.cmake
              ${PROJECT_BINARY_DIR}/hero-config-version.cmake DESTINATION ${hero_cmake_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

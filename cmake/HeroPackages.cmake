# Debian packages: cpack -G DEB in a build folder makes libhero-dev, headers and static libraries, and
# hero-tools, the programs. The page docs/guides/packages.md says what a version promises.

# Debian's name of the package of the MPI that the mpi backend was built with
set(mpi "")
if(HERO_MPIEXEC AND MPI_CXX_LIBRARIES MATCHES "openmpi")
  set(mpi ", libopenmpi-dev")
elseif(HERO_MPIEXEC AND MPI_CXX_LIBRARIES MATCHES "mpich")
  set(mpi ", libmpich-dev")
endif()
foreach(package IN ITEMS libhero-dev hero-tools)
  string(REGEX REPLACE ".*-" "" component ${package}) # dev, tools
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package}
          RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hero)
set(CPACK_PACKAGE_VENDOR "the Hero authors")
set(CPACK_PACKAGE_CONTACT "the Hero authors <hero@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
                                                GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL dev tools)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES OFF)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libhero-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "zlib1g-dev${mpi}")
set(CPACK_COMPONENT_DEV_DESCRIPTION "${PROJECT_DESCRIPTION}
 Headers and static libraries, for find_package(hero) and pkg-config.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME hero-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
if(CMAKE_CROSSCOMPILING) # dpkg knows the building machine's architecture and libraries alone
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "libc6 (>= 2.36), libgcc-s1, libstdc++6 (>= 12)")
  if(mpi)
    string(APPEND CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS ", libopenmpi3")
  endif()
else()
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "plans of distributed training
 hero-plan finds the fastest way to divide a model's training among devices.")
include(CPack)

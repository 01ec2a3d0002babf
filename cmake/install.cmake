# install.cmake - libraries, public headers, CMake package, pkg-config files.
install(TARGETS exg_export_static exg_export_shared exg_exec_static exg_exec_shared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY libexport/include/exg libexec/include/exg
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

set(EXG_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/exg)
file(RELATIVE_PATH EXG_CMAKE_TO_PREFIX /${EXG_CMAKE_DIR} /)
file(RELATIVE_PATH EXG_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/exgConfig.cmake.in exgConfig.cmake @ONLY)
configure_file(cmake/exg-export.pc.in exg-export.pc @ONLY)
configure_file(cmake/exg-exec.pc.in exg-exec.pc @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/exgConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/exgConfig.cmake ${PROJECT_BINARY_DIR}/exgConfigVersion.cmake
  DESTINATION ${EXG_CMAKE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/exg-export.pc ${PROJECT_BINARY_DIR}/exg-exec.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# install.cmake - what is installed, by the package that it goes into (package.cmake): libraries,
# public headers, CMake package, pkg-config files; what the command brings along. cli/ and plugin.cmake
# have the rest.
foreach(name export exec)
  install(TARGETS exg_${name}_shared EXPORT exgTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
  install(TARGETS exg_${name}_static EXPORT exgStaticTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  set_target_properties(exg_${name}_shared PROPERTIES EXPORT_NAME ${name}
    INSTALL_RPATH "\$ORIGIN")
  set_target_properties(exg_${name}_static PROPERTIES EXPORT_NAME ${name}_static)
endforeach()
install(DIRECTORY libexport/include/exg libexec/include/exg
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def")
install(FILES bindings/fortran/exg.f90 bindings/fortran/exg_fortran.c
  DESTINATION ${CMAKE_INSTALL_DATADIR}/exg/fortran COMPONENT dev)

set(EXG_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/exg)
file(RELATIVE_PATH EXG_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/exgConfig.cmake.in ${PROJECT_BINARY_DIR}/exgConfig.cmake
  INSTALL_DESTINATION ${EXG_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_DATADIR NO_SET_AND_CHECK_MACRO)
configure_file(cmake/exg-export.pc.in exg-export.pc @ONLY)
configure_file(cmake/exg-exec.pc.in exg-exec.pc @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/exgConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/exgConfig.cmake ${PROJECT_BINARY_DIR}/exgConfigVersion.cmake
  DESTINATION ${EXG_CMAKE_DIR} COMPONENT dev)
foreach(set exgTargets exgStaticTargets)
  install(EXPORT ${set} NAMESPACE exg:: DESTINATION ${EXG_CMAKE_DIR} COMPONENT dev)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/exg-export.pc ${PROJECT_BINARY_DIR}/exg-exec.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
# For module load, where people install under a prefix of their own; of no package.
configure_file(cmake/modulefile.in modulefile @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefile RENAME ${PROJECT_VERSION} COMPONENT modulefile
  DESTINATION ${CMAKE_INSTALL_DATADIR}/exg/modulefiles/exg)

# The command writes its own pages and completions; not where it cannot be run, nor by a sanitizer.
set(pages ${PROJECT_BINARY_DIR}/pages)
set(folders ${pages}/man1 ${pages}/bash ${pages}/zsh ${pages}/fish)
set(written ${pages}/man1/exg.1 ${pages}/bash/exg ${pages}/zsh/_exg ${pages}/fish/exg.fish)
set(write COMMAND exg help --man > ${pages}/man1/exg.1
  COMMAND exg completion bash > ${pages}/bash/exg
  COMMAND exg completion zsh > ${pages}/zsh/_exg
  COMMAND exg completion fish > ${pages}/fish/exg.fish)
file(STRINGS cli/command.def commands REGEX "^EXG_COMMAND")
list(TRANSFORM commands REPLACE "^EXG_COMMAND.([a-z]+).*" "\\1")
foreach(command ${commands})
  list(APPEND written ${pages}/man1/exg-${command}.1)
  list(APPEND write COMMAND exg help ${command} --man > ${pages}/man1/exg-${command}.1)
endforeach()
if(NOT EXG_SANITIZE AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  file(MAKE_DIRECTORY ${folders})
  set(manual ${written})
  list(FILTER manual INCLUDE REGEX "[.]1$")
  list(APPEND write COMMAND gzip -9nf ${manual})
  list(TRANSFORM written REPLACE "[.]1$" ".1.gz")
  add_custom_command(OUTPUT ${written} ${write} DEPENDS exg COMMENT "pages of the manual" VERBATIM)
  add_custom_target(exg_pages ALL DEPENDS ${written})
  install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
  install(FILES ${pages}/bash/exg COMPONENT tools
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/zsh/_exg COMPONENT tools
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  install(FILES ${pages}/fish/exg.fish COMPONENT tools
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
# Pages go with the command, whose README leads to them, and with the headers; examples, which those lead to, with the headers.
set(EXG_DEV_DOCDIR ${CMAKE_INSTALL_DATAROOTDIR}/doc/libexg-dev)
file(GLOB pages_of_docs CONFIGURE_DEPENDS docs/*.md docs/record_nodes.py)
file(GLOB examples CONFIGURE_DEPENDS examples/*.c examples/*.cpp examples/*.f90)
foreach(to "tools:${CMAKE_INSTALL_DOCDIR}" "dev:${EXG_DEV_DOCDIR}")
  string(REPLACE ":" ";" to ${to})
  list(GET to 0 component)
  list(GET to 1 folder)
  install(FILES ${pages_of_docs} DESTINATION ${folder}/docs COMPONENT ${component})
  install(DIRECTORY docs/cookbook DESTINATION ${folder}/docs COMPONENT ${component})
  install(FILES schema/README.md schema/rules.md DESTINATION ${folder}/schema COMPONENT ${component})
endforeach()
install(FILES ${examples} DESTINATION ${EXG_DEV_DOCDIR}/examples COMPONENT dev)
install(DIRECTORY examples/operators DESTINATION ${EXG_DEV_DOCDIR}/examples COMPONENT dev)
install(FILES README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)

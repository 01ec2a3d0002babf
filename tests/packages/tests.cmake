# Packages: made.sh, and the static command, which has a limit. What needs a machine of its own, clean.sh, is run by hand.
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(FILE_COMMAND file)
if(DPKG_SHLIBDEPS AND FILE_COMMAND AND NOT EXG_SANITIZE AND NOT EXG_FUZZ)
  add_test(NAME packages_made COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/made.sh ${CMAKE_CPACK_COMMAND}
    ${PROJECT_BINARY_DIR})
  set_tests_properties(packages_made PROPERTIES TIMEOUT 300 RESOURCE_LOCK install)
  add_test(NAME packages_static COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/package.sh tar
    ${PROJECT_BINARY_DIR}/static)
  set_tests_properties(packages_static PROPERTIES TIMEOUT 1200 LABELS slow SKIP_RETURN_CODE 77)
endif()

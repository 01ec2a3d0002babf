# Packages: made.sh. What needs a machine of its own, clean.sh, is run by hand.
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(FILE_COMMAND file)
if(DPKG_SHLIBDEPS AND FILE_COMMAND AND NOT EXG_SANITIZE AND NOT EXG_FUZZ)
  add_test(NAME packages_made COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/made.sh ${CMAKE_CPACK_COMMAND}
    ${PROJECT_BINARY_DIR})
  set_tests_properties(packages_made PROPERTIES TIMEOUT 300 RESOURCE_LOCK install)
endif()

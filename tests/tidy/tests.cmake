# Rules of the house, and a proof that they find what they look for.
add_test(NAME tidy COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tidy/checks.sh)
add_test(NAME tidy_finds_faults COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tidy/test.sh)
add_test(NAME tidy_seeds COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/tidy/seeds.sh ${PROJECT_SOURCE_DIR})
add_test(NAME tidy_format COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/tidy/format.sh)
set_tests_properties(tidy_format PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(tidy tidy_finds_faults PROPERTIES TIMEOUT 120)

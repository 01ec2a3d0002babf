# The command line: cases in cli/cases/, run and compared by cli/run.sh.
add_test(NAME cli COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/run.sh $<TARGET_FILE:exg>
         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(cli PROPERTIES TIMEOUT 300)

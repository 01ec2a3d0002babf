# Rules of the house, and a proof that they find what they look for.
add_test(NAME tidy COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tidy/checks.sh)
add_test(NAME tidy_finds_faults COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tidy/test.sh)
add_test(NAME tidy_seeds COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/tidy/seeds.sh ${PROJECT_SOURCE_DIR})
add_test(NAME tidy_format COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/tidy/format.sh)
set_tests_properties(tidy_format PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(tidy tidy_finds_faults PROPERTIES TIMEOUT 120)

# Files that know each other in a circle, by a release build's object files: as the optimizer leaves
# their symbols.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME circles_finds_faults COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/circles_test.py
  ${CMAKE_C_COMPILER} ${CMAKE_NM})
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT EXG_FUZZ)
  add_test(NAME circles COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/circles.py
    ${CMAKE_NM} ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_LIST_DIR}/circles.txt)
endif()

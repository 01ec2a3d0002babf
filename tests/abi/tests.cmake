# The public interface of the shared libraries.
foreach(library export exec)
  add_test(NAME abi_${library} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/public.sh ${CMAKE_NM}
    $<TARGET_FILE:exg_${library}_shared> lib${library}/include/exg tests/abi/${library}.txt)
endforeach()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME abi_layout COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/layout.py
  ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR})
if(NOT EXG_SANITIZE) # whose libraries want the sanitizer's
  add_test(NAME installed COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/installed.sh ${CMAKE_COMMAND}
    ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER} ${PROJECT_BINARY_DIR}
    ${PROJECT_SOURCE_DIR}/fixtures/mlp.pt2)
  set_tests_properties(installed PROPERTIES TIMEOUT 120
    PASS_REGULAR_EXPRESSION "output.*output" FAIL_REGULAR_EXPRESSION "error")
endif()

# The interface in C++ and, where there is a compiler, in Fortran.
set(mlp ${PROJECT_SOURCE_DIR}/fixtures/mlp)
add_executable(test_cxx ${CMAKE_CURRENT_LIST_DIR}/cxx.cpp)
target_link_libraries(test_cxx PRIVATE exg_flags exg::exec)
add_test(NAME bindings_cxx COMMAND test_cxx ${mlp}.pt2 ${mlp}.inputs.safetensors
  ${mlp}.expected.safetensors ${PROJECT_SOURCE_DIR}/fixtures/bad/NOD-017.pt2
  ${CMAKE_CURRENT_BINARY_DIR}/bindings_cxx.exg)
if(TARGET exg_fortran)
  add_executable(test_fortran ${CMAKE_CURRENT_LIST_DIR}/fortran.f90)
  target_link_libraries(test_fortran PRIVATE exg_fortran)
  add_executable(example_first_fortran ${PROJECT_SOURCE_DIR}/examples/first.f90)
  target_link_libraries(example_first_fortran PRIVATE exg_fortran)
  set(data ${CMAKE_CURRENT_BINARY_DIR}/bindings_fortran.txt)
  add_custom_command(OUTPUT ${data} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/data.py
    ${mlp}.inputs.safetensors x ${mlp}.expected.safetensors 0 ${data}
    DEPENDS ${CMAKE_CURRENT_LIST_DIR}/data.py VERBATIM)
  add_custom_target(bindings_fortran_data ALL DEPENDS ${data})
  add_test(NAME bindings_fortran COMMAND test_fortran ${mlp}.pt2 ${data})
  add_test(NAME example_first_fortran COMMAND example_first_fortran ${mlp}.pt2)
  set_tests_properties(example_first_fortran PROPERTIES PASS_REGULAR_EXPRESSION "[.]15678")
endif()

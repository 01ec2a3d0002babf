# Examples: built with the public headers alone, run as tests.
foreach(name first mlp run)
  add_executable(example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}.c)
  target_link_libraries(example_${name} PRIVATE exg::exec)
  target_include_directories(example_${name} PRIVATE ${PROJECT_SOURCE_DIR}) # as installed
  target_compile_options(example_${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
endforeach()
set(EXG_EXAMPLE ${CMAKE_CURRENT_BINARY_DIR}/example_mlp)
foreach(suffix pt2 exg)
  add_test(NAME example_mlp_${suffix} COMMAND example_mlp ${EXG_EXAMPLE}.${suffix})
  add_test(NAME example_run_${suffix} COMMAND example_run ${EXG_EXAMPLE}.${suffix})
  set_tests_properties(example_mlp_${suffix} PROPERTIES FIXTURES_SETUP mlp_${suffix})
  set_tests_properties(example_run_${suffix} PROPERTIES FIXTURES_REQUIRED mlp_${suffix}
    PASS_REGULAR_EXPRESSION "input     x .*output    0 +sum -3.09787")
endforeach()
# PyTorch's answer for zeros.
add_test(NAME example_first COMMAND example_first ${PROJECT_SOURCE_DIR}/fixtures/mlp.pt2)
set_tests_properties(example_first PROPERTIES PASS_REGULAR_EXPRESSION "^0[.]15678")

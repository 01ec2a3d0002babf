# Examples: built with the public headers alone, run as tests.
foreach(name decode first mlp run)
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
add_test(NAME example_decode COMMAND example_decode ${PROJECT_SOURCE_DIR}/fixtures/lm.decode.pt2
  12 5 17 99)
set_tests_properties(example_decode PROPERTIES PASS_REGULAR_EXPRESSION
  "^5 17 99 111 110 116 101 100 32 110 101 105 116 104 101\n$")
add_executable(example_first_cxx ${PROJECT_SOURCE_DIR}/examples/first.cpp)
target_link_libraries(example_first_cxx PRIVATE exg::exec)
target_compile_options(example_first_cxx PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Werror)
add_test(NAME example_first_cxx COMMAND example_first_cxx ${PROJECT_SOURCE_DIR}/fixtures/mlp.pt2)
set_tests_properties(example_first_cxx PROPERTIES PASS_REGULAR_EXPRESSION "^0[.]15678")

# A library of operators, and programs of PyTorch that call them.
add_library(example_mylib MODULE ${PROJECT_SOURCE_DIR}/examples/operators/mylib.c)
target_include_directories(example_mylib PRIVATE ${PROJECT_SOURCE_DIR}/libexport/include)
target_compile_options(example_mylib PRIVATE -Wall -Wextra -Wpedantic -Werror)
set_target_properties(example_mylib PROPERTIES PREFIX "lib" OUTPUT_NAME mylib)
foreach(program plain data writes writes.core effects watched)
  set(files ${PROJECT_SOURCE_DIR}/fixtures/operator_library/${program})
  add_test(NAME example_operators_${program} COMMAND exg run ${files}.pt2
    --ops $<TARGET_FILE:example_mylib> --input ${files}.inputs.safetensors
    --expect ${files}.expected.safetensors)
  set_tests_properties(example_operators_${program} PROPERTIES
    PASS_REGULAR_EXPRESSION "as expected: ")
endforeach()
# Those of torchvision come by themselves.
foreach(program nms nms64 roi deform autocast.bfloat16 autocast.float16)
  set(files ${PROJECT_SOURCE_DIR}/fixtures/torchvision/${program})
  foreach(mesh 1 2)
    add_test(NAME torchvision_${program}_${mesh} COMMAND exg run ${files}.pt2 --mesh ${mesh}
      --place data --input ${files}.inputs.safetensors --expect ${files}.expected.safetensors)
    set_tests_properties(torchvision_${program}_${mesh} PROPERTIES
      PASS_REGULAR_EXPRESSION "as expected: ")
  endforeach()
endforeach()

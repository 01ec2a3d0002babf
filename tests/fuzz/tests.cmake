# Fuzz targets. With EXG_FUZZ they are libFuzzer binaries; in every other build
# replay.c runs each over its corpus, as a test.
function(exg_fuzz name)
  add_executable(fuzz_${name} fuzz/fuzz_${name}.c)
  target_link_libraries(fuzz_${name} PRIVATE exg_flags exg::export)
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  add_dependencies(fuzz_targets fuzz_${name})
  if(EXG_FUZZ)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE fuzz/replay.c)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} tests/fuzz/corpus/${name}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(fuzz_${name} PROPERTIES TIMEOUT 300)
  endif()
endfunction()

foreach(target checkpoint exg gguf json npy npz pickle pt2 safetensors)
  exg_fuzz(${target})
endforeach()
target_sources(fuzz_pt2 PRIVATE export/maker.c)
target_link_libraries(fuzz_pt2 PRIVATE PkgConfig::CMOCKA)

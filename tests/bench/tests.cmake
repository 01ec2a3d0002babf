# Benchmarks: printed, never asserted. `sh tests/run.sh bench` runs them.
function(exg_bench name)
  add_executable(bench_${name} ${ARGN})
  target_link_libraries(bench_${name} PRIVATE exg_flags exg::exec)
  target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

if(NOT EXG_FUZZ)
  exg_bench(session bench/session.c)
  exg_bench(open bench/open.c)
  exg_bench(weights bench/weights.c)
  if(EXG_XXH3_DISPATCH)
    target_compile_definitions(bench_weights PRIVATE EXG_XXH3_DISPATCH)
  endif()
  if(DNNL)
    exg_bench(kernels bench/kernels.c) # oneDNN is only its peer
    target_link_libraries(bench_kernels PRIVATE ${DNNL})
  endif()
endif()

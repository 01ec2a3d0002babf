# libexec's tests

# Kernels: each against a plain loop, on every instruction set, with one to three threads.
exg_test(exec_pool exec/kernels/pool.c THREADS LIBS exg::export)
exg_test(exec_tensor exec/kernels/tensor.c LIBS exg::exec)
exg_shared(harness exg::exec exec/kernels/harness.c exec/kernels/on_device.c standin/amx.c)
set(families attention chain convolution draw fft index matmul move norm pointwise recurrent reduce resample weight_product)
if(NOT EXG_SANITIZE) # of the accuracy of what pointwise runs too
  list(APPEND families formula)
endif()
foreach(family ${families})
  exg_test(exec_kernels_${family} exec/kernels/${family}.c LIBS tests_harness exg::exec)
  target_compile_definitions(test_exec_kernels_${family} PRIVATE
    $<TARGET_PROPERTY:exg_exec_objects,COMPILE_DEFINITIONS>) # which loops there are
endforeach()

# The same tests on CUDA's kernels, in the emulator; a part of the calls of the families with
# most. With sanitizers, whose compiler takes its time over each text, those of few texts.
set(families draw index move norm recurrent)
if(NOT EXG_SANITIZE)
  list(APPEND families attention convolution matmul pointwise reduce weight_product)
endif()
foreach(family ${families})
  set(one_of 1)
  if(family MATCHES "pointwise|reduce")
    set(one_of 8)
  elseif(family STREQUAL "convolution")
    set(one_of 2)
  elseif(family MATCHES "matmul|weight_product")
    set(one_of 6)
  endif()
  add_test(NAME exec_cuda_${family} COMMAND test_exec_kernels_${family}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_cuda_${family} PROPERTIES TIMEOUT 300
    ENVIRONMENT "EXG_KERNEL_DEVICE=cuda;EXG_KERNEL_ONE_OF=${one_of};${EXG_STANDIN_ENVIRONMENT}")
endforeach()

# By the stand-ins of cuBLASLt and cuDNN. With sanitizers exec_cuda_libraries and the epilogues.
if(NOT EXG_SANITIZE)
  foreach(family attention convolution matmul recurrent)
    add_test(NAME exec_cuda_${family}_libraries COMMAND test_exec_kernels_${family}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(exec_cuda_${family}_libraries PROPERTIES TIMEOUT 300
      ENVIRONMENT "EXG_KERNEL_DEVICE=cuda;EXG_KERNEL_ONE_OF=4;${EXG_STANDIN_ENVIRONMENT_LIBRARIES}")
  endforeach()
endif()
exg_test(exec_cuda_libraries exec/cuda/libraries.c exec/cuda/calls.c LIBS exg::exec)
set_tests_properties(exec_cuda_libraries PROPERTIES ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT_LIBRARIES}")
exg_test(exec_cuda_epilogues exec/cuda/epilogues.c exec/cuda/calls.c LIBS exg::exec)
set_tests_properties(exec_cuda_epilogues PROPERTIES ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT}")
add_test(NAME exec_cuda_epilogues_libraries COMMAND test_exec_cuda_epilogues
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_epilogues_libraries PROPERTIES
  ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT_LIBRARIES}")

add_test(NAME exec_cuda_found COMMAND sh tests/exec/cuda/found.sh $<TARGET_FILE:exg>
  ${EXG_STANDIN_DIRECTORY} ${EXG_STANDIN_LIBRARIES} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_test(NAME exec_cuda_library COMMAND sh tests/exec/cuda/library.sh $<TARGET_FILE:exg>
  ${CMAKE_C_COMPILER} libexport/include WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_library PROPERTIES ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT}")
add_test(NAME exec_cuda_step COMMAND sh tests/exec/cuda/step.sh $<TARGET_FILE:exg>
  ${EXG_STANDIN_DIRECTORY} ${EXG_STANDIN_LIBRARIES} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
if(NOT EXG_SANITIZE AND TARGET exg_mpi)
  add_test(NAME exec_cuda_faults_mpi COMMAND sh tests/exec/cuda/faults.sh $<TARGET_FILE:exg>
    ${MPIEXEC_EXECUTABLE} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_cuda_faults_mpi PROPERTIES TIMEOUT 300
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;${EXG_STANDIN_ENVIRONMENT}")
endif()
if(NOT EXG_SANITIZE)
  add_test(NAME gpu_dry COMMAND sh tests/gpu/dry.sh ${PROJECT_BINARY_DIR} ${EXG_STANDIN_DIRECTORY}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endif()
# Ranks that share a device, some of which have none of the rows.
add_test(NAME exec_cuda_corpus_mesh COMMAND test_exec_corpus fixtures/operators/index.safetensors
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_corpus_mesh PROPERTIES TIMEOUT 300
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;EXG_CORPUS_MESH=3;${EXG_STANDIN_ENVIRONMENT}")
exg_test(exec_cuda_device exec/cuda/device.c exec/cuda/calls.c LIBS exg::exec)
set_tests_properties(exec_cuda_device PROPERTIES ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT}")
add_test(NAME exec_cuda_weights COMMAND test_exec_weights WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_weights PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;${EXG_STANDIN_ENVIRONMENT}")
exg_test(exec_cuda_links exec/cuda/links.c exec/cuda/calls.c LIBS exg::exec)
set_tests_properties(exec_cuda_links PROPERTIES ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT}")
exg_test(exec_cuda_faults exec/cuda/faults.c exec/cuda/calls.c LIBS exg::exec)
set_tests_properties(exec_cuda_faults PROPERTIES ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT}")
if(NOT EXG_SANITIZE)
  add_test(NAME exec_cuda_whole COMMAND sh tests/exec/cuda/whole.sh $<TARGET_FILE:exg>
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_cuda_whole PROPERTIES TIMEOUT 300
    ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT}")
  add_test(NAME exec_cuda_whole_libraries COMMAND sh tests/exec/cuda/whole.sh $<TARGET_FILE:exg>
    cublasLtMatmul WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_cuda_whole_libraries PROPERTIES TIMEOUT 300
    ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT_LIBRARIES}")
endif()
exg_test(exec_cuda_emulator exec/cuda/emulator.c ${PROJECT_SOURCE_DIR}/libexec/device/cuda/driver.c
  ${PROJECT_SOURCE_DIR}/libexec/device/cuda/libraries.c
  LIBS exg::exec)
set_tests_properties(exec_cuda_emulator PROPERTIES ENVIRONMENT "${EXG_STANDIN_ENVIRONMENT}")

exg_shared(ranks exg::exec exec/dtensor/ranks.c export/refusal.c export/codes.c)
target_link_options(tests_ranks INTERFACE -Wl,--wrap=exg_error_set)
exg_shared(eager exg::exec exec/dispatch/eager.c)
exg_test(exec_redistribute exec/dtensor/redistribute.c exec/dtensor/pairs.c
  THREADS LIBS tests_ranks exg::exec)
if(TARGET exg_mpi AND NOT EXG_SANITIZE AND NOT EXG_FUZZ) # MPI itself leaks
  add_executable(test_exec_mpi exec/dtensor/mpi.c exec/dtensor/pairs.c)
  target_link_libraries(test_exec_mpi PRIVATE exg_flags tests_eager tests_ranks exg::exec
    PkgConfig::CMOCKA)
  target_include_directories(test_exec_mpi PRIVATE ${PROJECT_SOURCE_DIR})
  add_test(NAME exec_mpi COMMAND ${MPIEXEC_EXECUTABLE} -n 4 $<TARGET_FILE:test_exec_mpi>)
  # several ranks a core, as root in a container
  set(EXG_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1)
  set_tests_properties(exec_mpi PROPERTIES TIMEOUT 120 ENVIRONMENT "${EXG_MPI_ENVIRONMENT}")
  # Once more where 16 bytes are too many for one count, as 1 GiB is else.
  add_library(exg_mpi_units MODULE ${PROJECT_SOURCE_DIR}/libexec/comm/mpi_plugin.c)
  target_compile_definitions(exg_mpi_units PRIVATE "UNIT_BYTES=UINT64_C(16)")
  target_link_libraries(exg_mpi_units PRIVATE exg_flags MPI::MPI_C)
  target_include_directories(exg_mpi_units PRIVATE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/libexec/include ${PROJECT_SOURCE_DIR}/libexport/include)
  set_target_properties(exg_mpi_units PROPERTIES OUTPUT_NAME exg_mpi C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/mpi_units)
  add_dependencies(test_exec_mpi exg_mpi_units)
  add_test(NAME exec_mpi_units COMMAND ${MPIEXEC_EXECUTABLE} -n 4 $<TARGET_FILE:test_exec_mpi>)
  set_tests_properties(exec_mpi_units PROPERTIES TIMEOUT 120 ENVIRONMENT
    "${EXG_MPI_ENVIRONMENT};LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/mpi_units")
endif()
exg_test(exec_checkpoint exec/dtensor/checkpoint.c THREADS LIBS tests_ranks exg::exec)
exg_test(exec_strided exec/dtensor/strided.c exec/dtensor/pairs.c
  THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_gradient exec/dtensor/gradient.c THREADS LIBS tests_ranks exg::exec)
exg_test(exec_from_local exec/dtensor/from_local.c THREADS LIBS tests_ranks exg::exec)
exg_test(exec_dtensor exec/dtensor/dtensor.c THREADS LIBS tests_ranks exg::exec)
exg_test(exec_module exec/dispatch/module.c THREADS LIBS tests_eager tests_ranks exg::exec)

# A program that keeps state in buffers, call after call.
exg_test(exec_decode exec/session/decode.c THREADS LIBS tests_isa exg::exec)
# The levels of instructions, EXG_ISA: amx by its stand-in where the processor has none. A level
# that the machine lacks is skipped.
exg_shared(isa exg::exec standin/amx.c standin/isa.c)
function(exg_test_levels test)
  foreach(isa ${ARGN})
    add_test(NAME ${test}_${isa} COMMAND test_${test} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${test}_${isa} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77
      ENVIRONMENT EXG_ISA=${isa})
  endforeach()
endfunction()
# Ranks: placements, collectives, programs split over a mesh; sessions.
exg_test(exec_placement exec/comm/placement.c LIBS exg::exec)
exg_test(exec_agree exec/comm/agree.c THREADS LIBS exg::exec)
exg_test(exec_ranks exec/session/ranks.c THREADS LIBS exg::exec)
exg_test(exec_parallel exec/session/parallel.c THREADS LIBS exg::exec)
exg_test(exec_collectives exec/comm/collectives.c THREADS LIBS exg::exec)
exg_test(exec_phases exec/comm/phases.c THREADS LIBS exg::exec)
if(EXG_MPI_ENVIRONMENT)
  foreach(ranks 2 3 4)
    add_test(NAME exec_phases_mpi_${ranks}
      COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} $<TARGET_FILE:test_exec_phases>)
    set_tests_properties(exec_phases_mpi_${ranks} PROPERTIES TIMEOUT 120
      ENVIRONMENT "${EXG_MPI_ENVIRONMENT}")
  endforeach()
endif()
exg_test(exec_sharding_files exec/sharding/files.c LIBS exg::exec)
exg_test(exec_predict exec/sharding/predict.c LIBS exg::exec)
exg_test(exec_windows exec/sharding/windows.c THREADS LIBS exg::exec)
exg_test(exec_heads exec/sharding/heads.c exec/session/fixture.c THREADS LIBS exg::exec)
exg_test(exec_sharding exec/sharding/soundness.c exec/session/fixture.c THREADS LIBS exg::exec)
exg_test(exec_pages exec/session/pages.c LIBS exg::exec)
exg_test(exec_pipeline exec/sharding/pipeline.c exec/session/fixture.c THREADS LIBS exg::exec)
exg_test(exec_placements exec/sharding/placements.c exec/session/fixture.c THREADS LIBS exg::exec)
# Not a test: what tests/interop/shards.py runs.
add_executable(shards exec/sharding/shards.c exec/sharding/every.c)
target_link_libraries(shards PRIVATE exg_flags exg::exec)
target_include_directories(shards PRIVATE ${PROJECT_SOURCE_DIR})
exg_test(exec_session exec/session/session.c exec/session/fixture.c THREADS LIBS tests_isa exg::exec)
exg_test(exec_budget exec/session/budget.c exec/session/fixture.c THREADS LIBS exg::exec)
exg_test(exec_turns exec/session/turns.c exec/session/fixture.c THREADS LIBS exg::exec)
exg_test(exec_stop exec/session/stop.c exec/session/fixture.c THREADS LIBS exg::exec)
exg_test(exec_calls exec/session/calls.c LIBS exg::exec)
exg_test(exec_built exec/session/built.c LIBS exg::exec)
exg_test(exec_nulls exec/nulls.c LIBS exg::exec)
exg_test(exec_allocator exec/session/allocator.c THREADS LIBS exg::exec)
exg_test(exec_out_of_memory exec/session/out_of_memory.c export/refusal.c
  ${PROJECT_SOURCE_DIR}/examples/operators/mylib.c LIBS exg::exec)
exg_test(exec_no_threads exec/session/no_threads.c exec/session/fixture.c LIBS exg::exec
  ${CMAKE_DL_LIBS})
# What a session makes of weights before it runs.
exg_test(exec_constant exec/session/constant.c THREADS LIBS tests_isa exg::exec)
exg_test(exec_weights exec/session/weights.c THREADS LIBS tests_isa exg::exec)
exg_test(exec_attention exec/session/attention.c LIBS tests_isa exg::exec)
exg_test(exec_any_arguments exec/session/any_arguments.c LIBS exg::exec)
exg_test(exec_quantized exec/session/quantized.c LIBS tests_isa exg::exec)
exg_test(exec_plan exec/session/plan.c exec/session/fixture.c THREADS LIBS exg::exec)

exg_test(exec_random exec/session/random.c THREADS LIBS exg::exec)

# Sizes and branches that lie in the data; loops.
exg_test(exec_segments exec/session/segments.c exec/session/fixture.c THREADS LIBS exg::exec)

# Random programs of views and writes, beside a reference of the test's own.
exg_test(exec_memory exec/session/memory.c LIBS exg::exec)

# The level of instructions, and what the strict device finds.
exg_test(exec_isa exec/device/isa.c LIBS exg::exec)
exg_test(exec_strict exec/device/strict.c LIBS exg::exec)

# Every case of the operator corpus, alone, with inputs split over three ranks, and over a
# grid of two by two.
exg_test(exec_corpus exec/corpus/corpus.c exec/corpus/eager.c exec/corpus/rows.c
  exec/corpus/unset.c exec/sharding/every.c
  LIBS tests_isa exg::exec)
if(NOT TARGET exg_lapack)
  target_compile_definitions(test_exec_corpus PRIVATE EXG_NO_LAPACK)
endif()
if(EXG_SANITIZE)
  exg_test_levels(exec_corpus amx)
  exg_test_levels(exec_constant amx)
else()
  foreach(test attention constant corpus decode quantized session weights)
    exg_test_levels(exec_${test} generic v3 v4 vnni bf16 amx)
  endforeach()
endif()
add_test(NAME exec_corpus_mesh COMMAND test_exec_corpus WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_corpus_mesh PROPERTIES TIMEOUT 300 ENVIRONMENT EXG_CORPUS_MESH=3)
if(NOT EXG_SANITIZE) # 14,000 runs more, of the same code
  add_test(NAME exec_corpus_shards COMMAND test_exec_corpus WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_corpus_shards PROPERTIES TIMEOUT 600 ENVIRONMENT EXG_CORPUS_SHARDS=3)
endif()
add_test(NAME exec_corpus_grid COMMAND test_exec_corpus WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_corpus_grid PROPERTIES TIMEOUT 300 ENVIRONMENT EXG_CORPUS_MESH=2x2)

# The same cases operator by operator on DTensors.
function(exg_eager_corpus name mesh placements)
  add_test(NAME exec_corpus_eager_${name} COMMAND test_exec_corpus
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_corpus_eager_${name} PROPERTIES TIMEOUT 300
    ENVIRONMENT "EXG_CORPUS_MESH=${mesh};EXG_CORPUS_EAGER=${placements}")
endfunction()
exg_eager_corpus(rows 3 "S(0)")
if(NOT EXG_SANITIZE)
  exg_eager_corpus(grid 2x2 "S(1) S(0)")
  exg_eager_corpus(columns 2 "S(1)")
  exg_eager_corpus(summands 3 "P(sum)")
  exg_eager_corpus(largest 3 "P(max)")
  exg_eager_corpus(smallest 2x2 "P(min) S(0)")
  exg_eager_corpus(mixed 2x3 "mixed 1") # each input otherwise, of other strides
  exg_eager_corpus(mixed_rows 3 "mixed 2")
  exg_eager_corpus(summands_rows 2x2 "P(sum) S(0)")
  exg_eager_corpus(pairs 3 pairs) # every two inputs in every way: a wrong sharding rule ends here
endif()

# The same on the device that shows what a real one would punish now and then; and with most
# kernels left to the host, between copies.
function(exg_strict_test name test)
  set(devices strict)
  if(NOT EXG_SANITIZE)
    list(APPEND devices strict-host)
  endif()
  foreach(device ${devices})
    add_test(NAME ${name}_${device} COMMAND test_${test} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}_${device} PROPERTIES TIMEOUT 600
      ENVIRONMENT "EXG_TEST_DEVICE=${device};${ARGN}")
  endforeach()
endfunction()
exg_strict_test(exec_corpus exec_corpus)
if(NOT EXG_SANITIZE) # its memory is not the heap, which sanitizers watch
  exg_strict_test(exec_corpus_mesh exec_corpus EXG_CORPUS_MESH=3)
  exg_strict_test(exec_corpus_grid exec_corpus EXG_CORPUS_MESH=2x2)
  exg_strict_test(exec_redistribute exec_redistribute)
  exg_strict_test(exec_strided exec_strided)
endif()
exg_strict_test(exec_session exec_session)
exg_test(exec_bound exec/session/bound.c exec/cuda/calls.c LIBS exg::exec)
exg_strict_test(exec_bound exec_bound)
add_test(NAME exec_cuda_bound COMMAND test_exec_bound WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_bound PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;${EXG_STANDIN_ENVIRONMENT}")
exg_test(exec_rank_bound exec/session/rank_bound.c exec/cuda/calls.c LIBS exg::exec)
exg_strict_test(exec_rank_bound exec_rank_bound)
add_test(NAME exec_cuda_rank_bound COMMAND test_exec_rank_bound
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_rank_bound PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;EXG_STANDIN_DEVICES=4;${EXG_STANDIN_ENVIRONMENT}")
if(EXG_MPI_ENVIRONMENT)
  add_test(NAME exec_rank_bound_mpi COMMAND ${MPIEXEC_EXECUTABLE} -n 4
    $<TARGET_FILE:test_exec_rank_bound> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_rank_bound_mpi PROPERTIES
    ENVIRONMENT "EXG_TEST_PROCESSES=1;${EXG_MPI_ENVIRONMENT}")
endif()
exg_test(exec_caches exec/session/caches.c exec/cuda/calls.c LIBS exg::exec)
exg_strict_test(exec_caches exec_caches)
add_test(NAME exec_cuda_caches COMMAND test_exec_caches WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_caches PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;EXG_STANDIN_DEVICES=2;${EXG_STANDIN_ENVIRONMENT}")
exg_test(exec_pairs exec/session/pairs.c exec/cuda/calls.c LIBS exg::exec)
add_test(NAME exec_cuda_pairs COMMAND test_exec_pairs WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_pairs PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;${EXG_STANDIN_ENVIRONMENT_LIBRARIES}")
exg_test(exec_experts exec/session/experts.c exec/cuda/calls.c LIBS exg::exec m)
add_test(NAME exec_experts_strict COMMAND test_exec_experts WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_experts_strict PROPERTIES ENVIRONMENT EXG_TEST_DEVICE=strict)
add_test(NAME exec_cuda_experts COMMAND test_exec_experts WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_experts PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;${EXG_STANDIN_ENVIRONMENT_LIBRARIES}")
exg_test(exec_weight_codes exec/session/weight_codes.c exec/cuda/calls.c LIBS exg::exec m)
add_test(NAME exec_weight_codes_strict COMMAND test_exec_weight_codes
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_weight_codes_strict PROPERTIES ENVIRONMENT EXG_TEST_DEVICE=strict)
add_test(NAME exec_cuda_weight_codes COMMAND test_exec_weight_codes
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_weight_codes PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;${EXG_STANDIN_ENVIRONMENT}")
exg_test(exec_in_place exec/session/in_place.c exec/cuda/calls.c LIBS exg::exec)
exg_strict_test(exec_in_place exec_in_place)
add_test(NAME exec_cuda_in_place COMMAND test_exec_in_place WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_cuda_in_place PROPERTIES
  ENVIRONMENT "EXG_TEST_DEVICE=cuda;${EXG_STANDIN_ENVIRONMENT}")
exg_strict_test(exec_segments exec_segments)
exg_strict_test(exec_budget exec_budget)
exg_strict_test(exec_random exec_random)
exg_strict_test(exec_memory exec_memory)
exg_strict_test(exec_decode exec_decode)
exg_strict_test(exec_attention exec_attention)

# One operator on DTensors, now.
exg_test(exec_operator_library exec/session/operator_library.c exec/session/fixture.c
  ${PROJECT_SOURCE_DIR}/examples/operators/mylib.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_shared_writes exec/session/shared_writes.c exec/session/fixture.c
  ${PROJECT_SOURCE_DIR}/examples/operators/mylib.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_dispatch exec/dispatch/dispatch.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_context exec/dispatch/context.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_autograd exec/dispatch/autograd.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_training exec/dispatch/training.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_gradients exec/dispatch/gradients.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_factory exec/dispatch/factory.c THREADS LIBS tests_eager tests_ranks exg::exec m)
exg_test(exec_programs exec/dispatch/programs.c exec/dispatch/fixture.c THREADS LIBS tests_eager
  tests_ranks exg::exec m)
exg_test(exec_forward exec/dispatch/forward.c exec/dispatch/fixture.c THREADS LIBS tests_eager tests_ranks exg::exec m)
exg_test(exec_support exec/dispatch/support.c LIBS exg::exec)
exg_test(exec_cache exec/dispatch/cache.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_drawn exec/dispatch/drawn.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_edges exec/dispatch/edges.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_steps exec/dispatch/steps.c THREADS LIBS tests_eager tests_ranks exg::exec m)
exg_test(exec_log exec/dispatch/log.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_item exec/dispatch/item.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_dispatch_out_of_memory exec/dispatch/out_of_memory.c exec/dispatch/fixture.c
  THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_refused exec/dispatch/refused.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_out exec/dispatch/out.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_op_schema exec/dispatch/schema.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_dispatch_rules exec/dispatch/rules.c THREADS LIBS tests_eager tests_ranks exg::exec)
exg_test(exec_dtensor_device exec/dispatch/device.c THREADS LIBS tests_eager tests_ranks exg::exec)

# DTensors in a device's memory: the tests above and those of meshes, of the host's before; and on
# CUDA's kernels, in the emulator.
exg_test(exec_dtensor_there exec/dtensor/there.c exec/cuda/calls.c
  THREADS LIBS tests_eager tests_ranks exg::exec m)
foreach(test dtensor from_local dtensor_there gradient module dispatch context autograd
  training dispatch_rules factory forward programs item out)
  exg_strict_test(exec_${test} exec_${test})
endforeach()
if(NOT EXG_SANITIZE)
  add_test(NAME exec_gradients_strict COMMAND test_exec_gradients
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_gradients_strict PROPERTIES TIMEOUT 600
    ENVIRONMENT "EXG_TEST_DEVICE=strict")
  exg_strict_test(exec_corpus_eager exec_corpus EXG_CORPUS_MESH=2x2
    "EXG_CORPUS_EAGER=P(sum) S(0)")
endif()
set(cuda_tests dtensor dtensor_there dispatch autograd dtensor_device)
if(NOT EXG_SANITIZE)
  list(APPEND cuda_tests redistribute)
endif()
foreach(test ${cuda_tests})
  add_test(NAME exec_cuda_${test} COMMAND test_exec_${test} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_cuda_${test} PROPERTIES TIMEOUT 300
    ENVIRONMENT "EXG_TEST_DEVICE=cuda;${EXG_STANDIN_ENVIRONMENT}")
endforeach()
# A stand-in for each rank: through NCCL.
set(cuda_tests dtensor dtensor_there autograd)
if(NOT EXG_SANITIZE)
  list(APPEND cuda_tests dispatch)
endif()
foreach(test ${cuda_tests})
  add_test(NAME exec_cuda_${test}_apart COMMAND test_exec_${test}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_cuda_${test}_apart PROPERTIES TIMEOUT 300
    ENVIRONMENT "EXG_TEST_DEVICE=cuda;EXG_STANDIN_DEVICES=8;${EXG_STANDIN_ENVIRONMENT}")
endforeach()
if(NOT EXG_SANITIZE)
  add_test(NAME exec_cuda_redistribute_apart COMMAND test_exec_redistribute
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(exec_cuda_redistribute_apart PROPERTIES TIMEOUT 300
    ENVIRONMENT "EXG_TEST_DEVICE=cuda;EXG_STANDIN_DEVICES=6;EXG_ONE_IN=16;${EXG_STANDIN_ENVIRONMENT}")
endif()
if(TEST exec_cuda_redistribute) # of two thousand moves, thread by thread
  set_tests_properties(exec_cuda_redistribute PROPERTIES
    ENVIRONMENT "EXG_TEST_DEVICE=cuda;EXG_ONE_IN=4;${EXG_STANDIN_ENVIRONMENT}")
endif()

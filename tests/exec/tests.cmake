# libexec's tests

# Kernels: each against a plain loop, on every instruction set and 1 to 3 threads.
set(EXG_KERNEL_TEST kernels/harness.c)
exg_test(exec_kernels_formula exec/kernels/formula.c exec/kernels/harness.c LIBS exg::exec)

# Every case of the operator corpus, alone and with inputs split over three ranks.
exg_test(exec_corpus exec/corpus/corpus.c LIBS exg::exec)
add_test(NAME exec_corpus_mesh COMMAND test_exec_corpus WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(exec_corpus_mesh PROPERTIES TIMEOUT 300 ENVIRONMENT EXG_CORPUS_MESH=3)

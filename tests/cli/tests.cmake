# The command line: cases in cli/cases/, run and compared by cli/run.sh.
add_test(NAME cli COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/run.sh $<TARGET_FILE:exg>
         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(cli PROPERTIES TIMEOUT 600)
if(EXG_SANITIZE)
  set_tests_properties(cli PROPERTIES ENVIRONMENT EXG_ONE_IN=3)
endif()
add_test(NAME cli_demo COMMAND sh ${PROJECT_SOURCE_DIR}/cli/demo.sh) # what the README begins with
set_tests_properties(cli_demo PROPERTIES ENVIRONMENT EXG=$<TARGET_FILE:exg>)
add_test(NAME cli_pages COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/cli/pages.sh $<TARGET_FILE:exg>)
find_program(PYTHON3 python3)
if(PYTHON3)
  if(NOT EXG_SANITIZE) # some 8,000 calls
    add_test(NAME cli_options COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/options.py $<TARGET_FILE:exg>
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(cli_options PROPERTIES TIMEOUT 600)
  endif()
  add_test(NAME cli_json COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/json_members.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME cli_trace COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/trace.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME cli_hostile COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/hostile.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(cli_hostile PROPERTIES TIMEOUT 300)
  add_test(NAME cli_bom COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/bom.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME cli_digest COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/digest.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME cli_signing COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/signing.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME cli_store COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/store.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(EXG_PARALLEL_MPI)
  if(TARGET exg_mpi AND NOT EXG_SANITIZE AND NOT EXG_FUZZ)
    set(EXG_PARALLEL_MPI ${MPIEXEC_EXECUTABLE})
  endif()
  add_test(NAME cli_parallel COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/parallel.py $<TARGET_FILE:exg>
           ${EXG_STANDIN_DIRECTORY} ${EXG_PARALLEL_MPI} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(cli_parallel PROPERTIES TIMEOUT 300 ENVIRONMENT "${EXG_MPI_ENVIRONMENT}")
  set_tests_properties(cli_bom cli_digest cli_signing cli_store cli_json PROPERTIES TIMEOUT 300)
endif()
if(PYTHON3 AND TARGET exg AND NOT EXG_SANITIZE) # it waits for lines that come with time
  add_test(NAME cli_progress COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/progress.py $<TARGET_FILE:exg>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(cli_progress PROPERTIES TIMEOUT 300)
endif()
find_program(CHROMIUM chromium)
if(PYTHON3 AND CHROMIUM AND NOT EXG_SANITIZE)
  add_test(NAME cli_page COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/page.py $<TARGET_FILE:exg> ${CHROMIUM}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(cli_page PROPERTIES TIMEOUT 200)
endif()
if(PYTHON3 AND TARGET exg_http) # on loopback
  add_test(NAME cli_addresses COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/cli/addresses.py
           $<TARGET_FILE:exg> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(cli_addresses PROPERTIES TIMEOUT 300 RUN_SERIAL TRUE ENVIRONMENT "EXG_SANITIZE=${EXG_SANITIZE}")
endif()
if(TARGET exg_mpi AND NOT EXG_SANITIZE AND NOT EXG_FUZZ)
  add_test(NAME cli_mpi COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/mpi.sh $<TARGET_FILE:exg>
           ${MPIEXEC_EXECUTABLE} ${EXG_STANDIN_DIRECTORY} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(cli_mpi PROPERTIES TIMEOUT 300 ENVIRONMENT "${EXG_MPI_ENVIRONMENT}")
endif()

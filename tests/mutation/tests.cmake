# Changes of the product that a named test must find (mutation/audit.txt), made beside this build.
find_program(EXG_PYTHON python3)
if(CMAKE_GENERATOR STREQUAL Ninja AND EXG_PYTHON AND TARGET exg AND NOT EXG_FUZZ AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME mutation_audit COMMAND ${EXG_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mutation/mutation.py
    --table ${CMAKE_CURRENT_SOURCE_DIR}/mutation/audit.txt --built ${CMAKE_BINARY_DIR}
    --folder ${CMAKE_CURRENT_BINARY_DIR}/mutation --jobs 1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(mutation_audit PROPERTIES TIMEOUT 300 LABELS "mutation;slow"
    ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()

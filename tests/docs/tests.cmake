# The documents are true: what they show is run, what is made of tables is current.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND TARGET exg)
  add_test(NAME docs_examples COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/docs/examples.py $<TARGET_FILE:exg>)
  add_test(NAME docs_cli COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/docs/cli.py $<TARGET_FILE:exg>)
  add_test(NAME docs_code_examples COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/docs/code_examples.py $<TARGET_FILE:exg>)
  add_test(NAME docs_weights COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/docs/weights.py)
  set_tests_properties(docs_examples docs_cli docs_code_examples docs_weights PROPERTIES ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()

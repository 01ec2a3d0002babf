# How work grows with the program, and what calls itself: from a build of all but the loops of
# kernels that counts its steps and writes down who calls whom. GCC alone, and no sanitizer.
find_program(EXG_PYTHON python3)
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND EXG_PYTHON AND NOT EXG_SANITIZE AND NOT EXG_FUZZ
    AND NOT CMAKE_CROSSCOMPILING)
  set(counted growth/steps.c)
  foreach(page page diff)
    string(REPLACE cli_page_page cli_page symbol cli_${page}_page)
    add_custom_command(OUTPUT counted_${page}.c
      COMMAND ${CMAKE_COMMAND} -DIN=${PROJECT_SOURCE_DIR}/cli/${page}.html -DOUT=counted_${page}.c
        -DNAME=${symbol} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
      DEPENDS ${PROJECT_SOURCE_DIR}/cli/${page}.html VERBATIM)
    list(APPEND counted ${CMAKE_CURRENT_BINARY_DIR}/counted_${page}.c)
  endforeach()
  foreach(target exg_export_objects exg_exec_objects exg)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    list(FILTER sources INCLUDE REGEX "\\.c$")
    list(FILTER sources EXCLUDE REGEX "^/|cuda|_plugin\\.c$")
    list(TRANSFORM sources PREPEND ${folder}/)
    list(APPEND counted ${sources})
  endforeach()
  add_executable(exg_counted ${counted})
  target_link_libraries(exg_counted PRIVATE exg_flags exg_exec_static exg_export_static)
  foreach(target exg_export_objects exg_exec_objects exg)
    target_compile_definitions(exg_counted PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
    target_include_directories(exg_counted PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  endforeach()
  target_compile_options(exg_counted PRIVATE -O1 -w -fwrapv -fno-strict-aliasing
    -fsanitize-coverage=trace-pc -fcallgraph-info=su
    -fno-inline -fno-partial-inlining -fno-ipa-cp -fno-ipa-sra)
  set_target_properties(exg_counted PROPERTIES C_COMPILER_LAUNCHER "") # it keeps no calls
  set_source_files_properties(growth/steps.c PROPERTIES
    COMPILE_OPTIONS "-fno-sanitize-coverage=trace-pc;-fno-builtin")
  foreach(name memcpy memmove memset memcmp strlen strcmp calloc)
    target_link_options(exg_counted PRIVATE -Wl,--wrap=${name})
  endforeach()
  add_test(NAME growth COMMAND ${EXG_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/growth/growth.py
           $<TARGET_FILE:exg_counted> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  add_test(NAME recursion COMMAND ${EXG_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/growth/recursion.py
           $<TARGET_PROPERTY:exg_counted,BINARY_DIR>/CMakeFiles/exg_counted.dir
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(growth recursion PROPERTIES TIMEOUT 300)
endif()

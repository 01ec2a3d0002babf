# How work grows with the program, and what calls itself: from a build of all but the loops of
# kernels that counts its steps and writes down who calls whom. GCC alone, and no sanitizer.
find_program(EXG_PYTHON python3)
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND EXG_PYTHON AND NOT EXG_FUZZ AND NOT CMAKE_CROSSCOMPILING)
  set(counted growth/steps.c)
  foreach(page page=cli_page diff=cli_diff_page)
    string(REPLACE = ";" page ${page})
    list(GET page 0 file)
    list(GET page 1 name)
    add_custom_command(OUTPUT counted_${file}.c
      COMMAND ${CMAKE_COMMAND} -DIN=${PROJECT_SOURCE_DIR}/cli/${file}.html -DOUT=counted_${file}.c
        -DNAME=${name} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
      DEPENDS ${PROJECT_SOURCE_DIR}/cli/${file}.html VERBATIM)
    list(APPEND counted ${CMAKE_CURRENT_BINARY_DIR}/counted_${file}.c)
  endforeach()
  foreach(target exg_export_objects exg_exec_objects exg)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    list(FILTER sources INCLUDE REGEX "\\.c$")
    list(FILTER sources EXCLUDE REGEX "^/|cuda|_plugin\\.c$")
    list(TRANSFORM sources PREPEND ${folder}/)
    list(APPEND counted ${sources})
  endforeach()
  add_executable(exg_counted EXCLUDE_FROM_ALL ${counted}) # a fourth of all there is to compile: by its tests
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
  add_test(NAME growth_build COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target exg_counted)
  set_tests_properties(growth recursion PROPERTIES TIMEOUT 300 LABELS slow FIXTURES_REQUIRED counted)
  set_tests_properties(growth_build PROPERTIES TIMEOUT 900 LABELS slow FIXTURES_SETUP counted
                       PROCESSORS 2)
endif()

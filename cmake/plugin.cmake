# What not every process needs lies behind a table, in a library that is loaded when it is asked
# for: exg_plugin(LIBRARY NAME SOURCE LINKED), beside those of libexec.
function(exg_plugin library name source linked)
  add_library(exg_${name} MODULE ${source})
  target_link_libraries(exg_${name} PRIVATE exg_flags ${linked})
  target_include_directories(exg_${name} PRIVATE ${PROJECT_SOURCE_DIR}/libexec/include
    ${PROJECT_SOURCE_DIR}/libexport/include)
  set_target_properties(exg_${name} PROPERTIES C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/libexec)
  add_dependencies(exg_${library}_static exg_${name})
  add_dependencies(exg_${library}_shared exg_${name})
  install(TARGETS exg_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name})
  set_property(GLOBAL APPEND PROPERTY EXG_PLUGINS ${name})
endfunction()

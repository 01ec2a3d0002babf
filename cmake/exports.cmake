# exports.cmake - exg_exports(LIBRARY OBJECT_TARGET...): the shared library of LIBRARY shows
# what tests/abi/LIBRARY.txt lists, and to the library made of the objects what they need.
function(exg_exports library)
  set(objects "")
  foreach(target ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(map ${PROJECT_BINARY_DIR}/exg_${library}.map)
  set(public ${PROJECT_SOURCE_DIR}/tests/abi/${library}.txt)
  set(script ${PROJECT_SOURCE_DIR}/cmake/exports.sh)
  add_custom_command(OUTPUT ${map}
    COMMAND sh ${script} ${CMAKE_NM} ${map} ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      ${public} ${objects}
    DEPENDS ${script} ${public} ${ARGN} ${objects} VERBATIM COMMAND_EXPAND_LISTS)
  add_custom_target(exg_${library}_map DEPENDS ${map})
  add_dependencies(exg_${library}_shared exg_${library}_map)
  set_target_properties(exg_${library}_shared PROPERTIES LINK_DEPENDS ${map})
  target_link_options(exg_${library}_shared PRIVATE LINKER:--version-script=${map})
endfunction()

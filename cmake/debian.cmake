# debian.cmake - what Debian wants beside the files of a package (run by cpack once they lie in their
# folders): copyright, changelog, and why lintian is not to warn.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # that of SOURCE_DATE_EPOCH
string(TIMESTAMP year "%Y" UTC)
set(ldconfig "# cpack calls it, beside the trigger.\n@ maintscript-calls-ldconfig\n")
set(plugin "# The libraries open it by this name from where the loader looks, for programs that are linked statically, too.
@ sharedobject-in-library-directory-missing-soname
@ library-not-linked-against-libc
${ldconfig}")
set(runtime "# One package for both libraries: they are of one version.\n@ package-name-doesnt-match-sonames\n${ldconfig}")
set(dev "# It lies where the libraries do, in no folder of one architecture.\n@ pkg-config-unavailable-for-cross-compilation\n")
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} field)
  set(package ${CPACK_DEBIAN_${field}_PACKAGE_NAME})
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share)
  file(MAKE_DIRECTORY ${share}/doc/${package})
  file(WRITE ${share}/doc/${package}/copyright "exg ${CPACK_PACKAGE_VERSION}

Copyright ${year} the authors of exg

License: none is chosen yet by the owner, so nobody may pass this package on.
")
  file(WRITE ${share}/doc/${package}/changelog "exg (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  execute_process(COMMAND gzip -9nf ${share}/doc/${package}/changelog COMMAND_ERROR_IS_FATAL ANY)
  set(reasons ${${component}})
  if(package MATCHES "^exg-plugin-")
    set(reasons "${plugin}")
  endif()
  if(reasons)
    string(REPLACE "@" "${package}:" reasons "${reasons}")
    file(WRITE ${share}/lintian/overrides/${package} "${reasons}")
  endif()
endforeach()

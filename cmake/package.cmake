# package.cmake - the packages that cpack makes, one a component of the installation (package.sh).
#
# The Debian packages: libexg1 (the number is EXG_ABI), libexg-dev, exg, and one for each plugin,
# which brings what the plugin is linked with. They use Debian's libraries, libstdc++ too, and Depends
# says which (SHLIBDEPS): simdjson's own package needs it, and so does apt, so every Debian has it, and
# a copy inside would not see security updates. Tarball and wheel, which go anywhere, have theirs
# inside (EXG_STATIC, EXG_BUNDLED).
set(CPACK_PACKAGE_NAME exg)
set(CPACK_PACKAGE_VENDOR exg)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "opens, verifies, converts and runs programs saved by torch.export")
set(CPACK_PACKAGE_CONTACT "exg maintainers <maintainers@exg.invalid>" CACHE STRING
  "who answers for the packages")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/libexport ${PROJECT_BINARY_DIR}/libexec)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian.cmake)

# package(COMPONENT NAME SUMMARY [FIELD VALUE]...)
function(package component name summary)
  string(TOUPPER ${component} field)
  set(field CPACK_DEBIAN_${field})
  set(${field}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(${field}_DESCRIPTION "${summary}" PARENT_SCOPE)
  set(${field}_FILE_NAME DEB-DEFAULT PARENT_SCOPE)
  while(ARGN)
    list(POP_FRONT ARGN key value)
    set(${field}_PACKAGE_${key} "${value}" PARENT_SCOPE)
  endwhile()
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
endfunction()
set(same "(= ${PROJECT_VERSION})")
set(CPACK_COMPONENTS_ALL)
package(runtime libexg${EXG_ABI} "The libraries: libexg_export opens, verifies and converts, libexg_exec runs." SECTION libs
  SUGGESTS "exg-plugin-lapack, exg-plugin-crypto, exg-plugin-http, exg-plugin-torchaudio, exg-plugin-torchvision"
  CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/triggers)
package(dev libexg-dev "Headers, archives, CMake package, pkg-config files." SECTION libdevel
  DEPENDS "libexg${EXG_ABI} ${same}"
  RECOMMENDS "libzstd-dev, libxxhash-dev, libdeflate-dev, zlib1g-dev, libsimdjson-dev, liblzma-dev, libbz2-dev, pkg-config")
package(tools exg "The command, its presets, the manual, completions for bash, zsh and fish."
  RECOMMENDS "exg-plugin-lapack, exg-plugin-crypto, exg-plugin-http, exg-plugin-torchaudio, exg-plugin-torchvision"
  SUGGESTS "exg-plugin-mpi, exg-plugin-cuda")
set(plugin_mpi "ranks in processes of their own, by MPI")
set(plugin_lapack "factorisations of matrices, by LAPACK")
set(plugin_torchaudio "operators of torchaudio")
set(plugin_torchvision "operators of torchvision")
set(plugin_cuda "devices of CUDA")
set(plugin_http "models on a server, by libcurl")
set(plugin_crypto "signatures, by OpenSSL")
get_property(plugins GLOBAL PROPERTY EXG_PLUGINS)
foreach(plugin ${plugins})
  package(${plugin} exg-plugin-${plugin}
    "What the libraries and the command load\nfor ${plugin_${plugin}}.")
endforeach()
include(CPack)

# Stand-ins for CUDA's libraries, found before them by LD_LIBRARY_PATH.
set(EXG_STANDIN_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/standin)
add_library(exg_standin_cuda SHARED standin/cuda.c standin/fibre.c standin/log.c standin/memory.c
  standin/stream.c)
set_target_properties(exg_standin_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
add_library(exg_standin_nvrtc SHARED standin/nvrtc.c standin/log.c)
set_target_properties(exg_standin_nvrtc PROPERTIES OUTPUT_NAME nvrtc SOVERSION 13)
target_compile_definitions(exg_standin_nvrtc PRIVATE EXG_STANDIN_CC="${CMAKE_C_COMPILER}")
add_library(exg_standin_nccl SHARED standin/nccl.c standin/log.c)
set_target_properties(exg_standin_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2)
target_link_libraries(exg_standin_nccl PRIVATE exg_standin_cuda)
foreach(standin cuda nvrtc nccl)
  target_link_libraries(exg_standin_${standin} PRIVATE exg_flags ${CMAKE_DL_LIBS})
  set_target_properties(exg_standin_${standin} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${EXG_STANDIN_DIRECTORY})
  add_dependencies(thread_tests exg_standin_${standin})
endforeach()
# What may be absent lies apart.
set(EXG_STANDIN_LIBRARIES ${EXG_STANDIN_DIRECTORY}/libraries)
add_library(exg_standin_blas SHARED standin/blas.c standin/log.c)
set_target_properties(exg_standin_blas PROPERTIES OUTPUT_NAME cublasLt SOVERSION 13)
add_library(exg_standin_dnn SHARED standin/dnn.c standin/log.c)
set_target_properties(exg_standin_dnn PROPERTIES OUTPUT_NAME cudnn SOVERSION 9)
foreach(standin blas dnn)
  target_link_libraries(exg_standin_${standin} PRIVATE exg_flags exg_standin_cuda m)
  set_target_properties(exg_standin_${standin} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${EXG_STANDIN_LIBRARIES})
endforeach()
# A directory of its own for compiled code: a run finds nothing of an older one.
set(EXG_STANDIN_ENVIRONMENT "LD_LIBRARY_PATH=${EXG_STANDIN_DIRECTORY}"
  "XDG_CACHE_HOME=${EXG_STANDIN_DIRECTORY}/cache")
set(EXG_STANDIN_ENVIRONMENT_LIBRARIES
  "LD_LIBRARY_PATH=${EXG_STANDIN_DIRECTORY}:${EXG_STANDIN_LIBRARIES}"
  "XDG_CACHE_HOME=${EXG_STANDIN_DIRECTORY}/cache")

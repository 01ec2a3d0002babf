# The public interface of the shared libraries.
foreach(library export exec)
  add_test(NAME abi_${library} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/public.sh ${CMAKE_NM}
    $<TARGET_FILE:exg_${library}_shared> lib${library}/include/exg tests/abi/${library}.txt)
endforeach()

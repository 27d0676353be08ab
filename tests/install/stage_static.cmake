# SPDX-License-Identifier: Apache-2.0
# Builds the static libraries alone and installs them.
function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} -D CMAKE_C_COMPILER=${C_COMPILER} -D CMAKE_BUILD_TYPE=${BUILD_TYPE}
    -D BUILD_SHARED_LIBS=OFF -D ATTN_OPENMP=${OPENMP} -D ATTN_CLI=OFF -D ATTN_TESTS=OFF)
run(${CMAKE_COMMAND} --build ${BUILD} -j 2)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX})

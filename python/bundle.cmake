# SPDX-License-Identifier: Apache-2.0
# Copies the shared libraries that `built` needs into attn/lib of a wheel, under the names that they are asked for by. Not ours, which are
# installed already, and not the C library with its parts, which every system has in its own version.
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${built} RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES "^libattn" "^lib(c|m|dl|rt|pthread)\\.so" "^ld-linux")
if(missing)
    message(FATAL_ERROR "libraries that are nowhere: ${missing}")
endif()
foreach(library IN LISTS found)
    get_filename_component(name ${library} NAME)
    file(REAL_PATH ${library} real)
    configure_file(${real} ${CMAKE_INSTALL_PREFIX}/attn/lib/${name} COPYONLY)
endforeach()

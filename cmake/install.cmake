# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where. Everything installed may be moved as a whole: nothing names the prefix.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(libraries attn attn_model)
if(ATTN_IO)
    list(APPEND libraries attn_io)
endif()

# The soname follows the major version of the API, and so does the package's version file.
set_target_properties(${libraries} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN")
install(TARGETS ${libraries} EXPORT attn)
install(FILES include/attn/attn.h include/attn/attn_model.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attn)
if(ATTN_IO)
    install(FILES include/attn/attn_io.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attn)
endif()

install(EXPORT attn NAMESPACE attn:: FILE attnTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/attnConfig.cmake.in ${PROJECT_BINARY_DIR}/attnConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH pkgconfig_to_prefix /${pkgconfig_dir} /)
# Who links a static library also links what it needs; beside a shared one that is private.
set(attn_needs -lm)
set(attn_model_needs -lm)
set(attn_io_needs "jansson, libzip")
if(ATTN_OPENMP)
    string(APPEND attn_needs " ${OpenMP_C_FLAGS}")
endif()
if(BUILD_SHARED_LIBS)
    string(PREPEND attn_needs "\nLibs.private: ")
    string(PREPEND attn_model_needs "\nLibs.private: ")
    string(PREPEND attn_io_needs "\nRequires.private: ")
else()
    string(PREPEND attn_io_needs ", ")
endif()
foreach(library IN LISTS libraries)
    configure_file(cmake/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${pkgconfig_dir})
endforeach()

install(FILES LICENSE README.md README.ko.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")

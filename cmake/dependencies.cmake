# What the build needs from the system: Python3::Module, Python3::NumPy (and Python3::Python, GTest for the tests),
# pybind11, appy_asmjit, PkgConfig::SLEEF, Threads::Threads. What is missing is an error that names the Debian package.

function(appy_missing what remedy)
  message(FATAL_ERROR "${what} was not found: install ${remedy}")
endfunction()

# Python and NumPy. The library itself is for the tests, which embed an interpreter.
set(components Interpreter Development.Module NumPy)
if(APPY_TESTS)
  list(APPEND components Development.Embed)
endif()
find_package(Python3 3.11 QUIET COMPONENTS ${components})
if(NOT Python3_Interpreter_FOUND)
  appy_missing("Python 3.11 or newer" "Debian's python3")
elseif(NOT Python3_Development.Module_FOUND)
  appy_missing("The C headers of ${Python3_EXECUTABLE}" "Debian's python3-dev")
elseif(NOT Python3_NumPy_FOUND)
  appy_missing("NumPy for ${Python3_EXECUTABLE}" "it with '${Python3_EXECUTABLE} -m pip install numpy>=2'")
elseif(APPY_TESTS AND NOT Python3_Development.Embed_FOUND)
  appy_missing("libpython of ${Python3_EXECUTABLE}" "Debian's python3-dev, or configure with -DAPPY_TESTS=OFF")
endif()

if(NOT pybind11_DIR)
  execute_process(COMMAND ${Python3_EXECUTABLE} -m pybind11 --cmakedir OUTPUT_VARIABLE pybind11_DIR
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(pybind11 2.13 CONFIG QUIET)
if(NOT pybind11_FOUND)
  appy_missing("pybind11 2.13 or newer" "it with '${Python3_EXECUTABLE} -m pip install pybind11'")
endif()

find_package(Threads REQUIRED)

# SLEEF: elementary functions on vectors.
find_package(PkgConfig QUIET)
if(NOT PKG_CONFIG_FOUND)
  appy_missing("pkg-config" "Debian's pkg-config")
endif()
pkg_check_modules(SLEEF QUIET IMPORTED_TARGET sleef)
if(NOT SLEEF_FOUND)
  appy_missing("SLEEF" "Debian's libsleef-dev")
endif()

# asmjit. Debian's libasmjit.a is not position-independent, but its one offending relocation is against `stderr`: the
# archive is copied with that symbol renamed to one that csrc/cpu/asmjit_debian.cpp defines.
add_library(appy_asmjit INTERFACE)
target_compile_definitions(appy_asmjit INTERFACE ASMJIT_STATIC)
if(APPY_FETCH_ASMJIT)
  # The commit that Debian 12 packages.
  include(FetchContent)
  FetchContent_Declare(asmjit GIT_REPOSITORY https://github.com/asmjit/asmjit.git
                       GIT_TAG 5b5b0b38775938df4d3779604ff1db60b9a9dcbf)
  set(ASMJIT_STATIC ON CACHE BOOL "")
  FetchContent_MakeAvailable(asmjit)
  target_include_directories(appy_asmjit SYSTEM INTERFACE ${asmjit_SOURCE_DIR}/src)
  target_link_libraries(appy_asmjit INTERFACE asmjit)
else()
  find_path(ASMJIT_INCLUDE asmjit/asmjit.h)
  find_library(ASMJIT_ARCHIVE libasmjit.a)
  if(NOT ASMJIT_INCLUDE OR NOT ASMJIT_ARCHIVE)
    appy_missing("asmjit" "Debian's libasmjit-dev, or configure with -DAPPY_FETCH_ASMJIT=ON")
  endif()
  set(renamed ${CMAKE_BINARY_DIR}/libasmjit_renamed.a)
  add_custom_command(OUTPUT ${renamed}
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym stderr=appy_asmjit_stderr ${ASMJIT_ARCHIVE} ${renamed}
    DEPENDS ${ASMJIT_ARCHIVE} VERBATIM)
  add_custom_target(asmjit_renamed DEPENDS ${renamed})
  add_dependencies(appy_asmjit asmjit_renamed)
  target_include_directories(appy_asmjit SYSTEM INTERFACE ${ASMJIT_INCLUDE})
  target_link_libraries(appy_asmjit INTERFACE ${renamed})
  # The definition lies in an archive that the linker has passed when it meets the reference.
  target_link_options(appy_asmjit INTERFACE LINKER:-u,appy_asmjit_stderr)
endif()

if(APPY_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    appy_missing("GoogleTest" "Debian's libgtest-dev, or configure with -DAPPY_TESTS=OFF")
  endif()
endif()

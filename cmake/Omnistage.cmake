# Helpers shared by every folder. Everything is built with hidden symbols and position independent
# code, so that static libraries can end up in libomnistage.so or in a model plug-in.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Asserts that guard shared memory stay on in every build (OMS_CHECK); assert() is for debug builds.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

find_program(OMNISTAGE_CCACHE ccache)
if(OMNISTAGE_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${OMNISTAGE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${OMNISTAGE_CCACHE})
endif()

find_package(Threads REQUIRED)

add_library(oms_flags INTERFACE)
target_compile_options(oms_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
target_include_directories(oms_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(oms_flags INTERFACE Threads::Threads)
if(OMNISTAGE_SANITIZE STREQUAL "address")
  set(oms_sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
elseif(OMNISTAGE_SANITIZE STREQUAL "thread")
  set(oms_sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(OMNISTAGE_SANITIZE)
  message(FATAL_ERROR "OMNISTAGE_SANITIZE must be address, thread or empty, not '${OMNISTAGE_SANITIZE}'")
endif()
if(OMNISTAGE_SANITIZE)
  add_compile_options(${oms_sanitize})
  add_link_options(${oms_sanitize})
  add_compile_definitions(OMNISTAGE_SANITIZED=1)
endif()

# oms_library(NAME SRCS a.cc ... DEPS oms_base ...): a static library.
function(oms_library name)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SRCS})
  target_link_libraries(${name} PUBLIC oms_flags ${A_DEPS})
endfunction()

# oms_executable(NAME SRCS ... DEPS ...): ends up in <build>/bin.
function(oms_executable name)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${A_SRCS})
  target_link_libraries(${name} PRIVATE oms_flags ${A_DEPS})
endfunction()

# oms_test(NAME SRCS ... DEPS ... LABEL unit|conformance|integration|golden|sim|stress|fuzz|bench
#          [TIMEOUT seconds] [ARGS ...]): one GoogleTest program = one ctest entry named NAME.
# The program finds test data through OMS_SOURCE_DIR and built programs through OMS_BUILD_DIR.
function(oms_test name)
  cmake_parse_arguments(A "" "LABEL;TIMEOUT" "SRCS;DEPS;ARGS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${A_SRCS})
  target_link_libraries(${name} PRIVATE oms_flags ${A_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    OMS_SOURCE_DIR="${CMAKE_SOURCE_DIR}" OMS_BUILD_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABEL}" TIMEOUT ${A_TIMEOUT})
endfunction()

# oms_fuzzer(NAME SRCS ... DEPS ...): a libFuzzer program; only with the fuzz preset (clang).
function(oms_fuzzer name)
  if(NOT OMNISTAGE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${A_SRCS})
  target_link_libraries(${name} PRIVATE oms_flags ${A_DEPS})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_test(NAME ${name} COMMAND ${name} -max_total_time=20 -timeout=5
           ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()

# oms_flatbuffers(NAME SCHEMAS a.fbs ...): generated headers, included as "omnistage/wire/a_generated.h".
# Never committed: generator and header must be of the same FlatBuffers release.
function(oms_flatbuffers name)
  cmake_parse_arguments(A "" "" "SCHEMAS" ${ARGN})
  find_program(OMNISTAGE_FLATC flatc REQUIRED)
  set(dir ${CMAKE_BINARY_DIR}/generated)
  set(outputs)
  foreach(schema ${A_SCHEMAS})
    get_filename_component(base ${schema} NAME_WE)
    set(out ${dir}/omnistage/wire/${base}_generated.h)
    add_custom_command(OUTPUT ${out}
      COMMAND ${OMNISTAGE_FLATC} --cpp --scoped-enums 
              -I ${CMAKE_CURRENT_SOURCE_DIR} -o ${dir}/omnistage/wire ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${A_SCHEMAS} VERBATIM)
    list(APPEND outputs ${out})
  endforeach()
  add_custom_target(${name}_gen DEPENDS ${outputs})
  add_library(${name} INTERFACE)
  add_dependencies(${name} ${name}_gen)
  target_include_directories(${name} INTERFACE ${dir})
endfunction()

# oms_model_plugin(NAME SRCS ... DEPS ...): a model family that needs libtorch. The stage process loads
# lib/omnistage/lib<NAME>.so at start, so that stages of other families never pay for libtorch.
function(oms_model_plugin name)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} MODULE ${A_SRCS})
  target_link_libraries(${name} PRIVATE oms_flags ${A_DEPS})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/omnistage)
endfunction()

# libtorch from the PyPI wheel without its GPU gigabytes: libtorch_cpu, libc10 and the headers, laid out by
# scripts/setup under the cache folder. Makes the target Libtorch::cpu and the helper oms_use_aten_pch().
#
# Input:  OMNISTAGE_LIBTORCH (folder with include/ and lib/); default: the cache folder of scripts/setup.
# The version scripts of libtorch_cpu.so name CUDA libraries that are only found at run time (through its
# own run path), hence --allow-shlib-undefined.
set(OMNISTAGE_LIBTORCH_VERSION 2.11.0)
if(NOT OMNISTAGE_LIBTORCH)
  if(DEFINED ENV{OMNISTAGE_CACHE})
    set(_oms_cache $ENV{OMNISTAGE_CACHE})
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(_oms_cache $ENV{XDG_CACHE_HOME}/omnistage)
  else()
    set(_oms_cache $ENV{HOME}/.cache/omnistage)
  endif()
  set(OMNISTAGE_LIBTORCH ${_oms_cache}/libtorch-${OMNISTAGE_LIBTORCH_VERSION} CACHE PATH
      "folder with include/ and lib/ of a torch ${OMNISTAGE_LIBTORCH_VERSION} wheel")
endif()
include(FindPackageHandleStandardArgs)
find_file(Libtorch_CPU_LIBRARY libtorch_cpu.so PATHS ${OMNISTAGE_LIBTORCH}/lib NO_DEFAULT_PATH)
find_file(Libtorch_C10_LIBRARY libc10.so PATHS ${OMNISTAGE_LIBTORCH}/lib NO_DEFAULT_PATH)
find_path(Libtorch_INCLUDE_DIR ATen/ATen.h PATHS ${OMNISTAGE_LIBTORCH}/include NO_DEFAULT_PATH)
find_package_handle_standard_args(Libtorch
  REQUIRED_VARS Libtorch_CPU_LIBRARY Libtorch_C10_LIBRARY Libtorch_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup, or configure with -DOMNISTAGE_TORCH=OFF")
if(Libtorch_FOUND AND NOT TARGET Libtorch::cpu)
  add_library(Libtorch::c10 SHARED IMPORTED)
  set_target_properties(Libtorch::c10 PROPERTIES IMPORTED_LOCATION ${Libtorch_C10_LIBRARY})
  add_library(Libtorch::cpu SHARED IMPORTED)
  set_target_properties(Libtorch::cpu PROPERTIES
    IMPORTED_LOCATION ${Libtorch_CPU_LIBRARY}
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1"
    INTERFACE_LINK_LIBRARIES Libtorch::c10
    INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined;-Wl,--disable-new-dtags")
  set_property(TARGET Libtorch::cpu APPEND PROPERTY
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${Libtorch_INCLUDE_DIR})
  set_property(TARGET Libtorch::cpu APPEND PROPERTY
    INTERFACE_INCLUDE_DIRECTORIES ${Libtorch_INCLUDE_DIR})
endif()

# ATen/ATen.h costs about 10 s a file; precompiled once it costs 1.5 s. The first torch target makes the
# header, later ones reuse it (their compile flags must agree).
function(oms_use_aten_pch target)
  target_precompile_headers(${target} PRIVATE <ATen/ATen.h>)
endfunction()

# The CUDA compiler and oms_cuda_library(); included with OMNISTAGE_CUDA=ON only.
if(OMNISTAGE_SANITIZE)
  message(FATAL_ERROR "OMNISTAGE_CUDA=ON and OMNISTAGE_SANITIZE=${OMNISTAGE_SANITIZE} do not go together: "
    "nvcc does not take the sanitizers of GCC")
endif()

# SASS for A100 and H100, and PTX of both, so that a newer GPU compiles it at load.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU architectures of the CUDA parts")
endif()

# Asked before CMake does, whose own message does not say what to install.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(OMNISTAGE_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT OMNISTAGE_NVCC)
    message(FATAL_ERROR "OMNISTAGE_CUDA=ON needs nvcc (CUDA toolkit 12 or newer), which is neither on PATH nor in "
      "/usr/local/cuda: install the toolkit, name the compiler with -DCMAKE_CUDA_COMPILER=..., or configure with "
      "-DOMNISTAGE_CUDA=OFF")
  endif()
  set(CMAKE_CUDA_COMPILER ${OMNISTAGE_NVCC})
endif()
if(OMNISTAGE_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${OMNISTAGE_CCACHE})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" OR CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "the CUDA parts need nvcc 12 or newer (C++20); found ${CMAKE_CUDA_COMPILER_ID} "
    "${CMAKE_CUDA_COMPILER_VERSION} at ${CMAKE_CUDA_COMPILER}")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
# The runtime is linked in: no process depends on a libcudart.so, and libcuda comes with the driver.
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
find_package(CUDAToolkit REQUIRED)

# oms_cuda_library(NAME CUDA a.cu ... SRCS b.cc ... DEPS ...): a static library of device and host
# code. The .cu files see the repository's includes only: the options of oms_flags are GCC's.
# Never -use_fast_math: results are compared with the CPU bit for bit.
function(oms_cuda_library name)
  cmake_parse_arguments(A "" "" "CUDA;SRCS;DEPS" ${ARGN})
  add_library(${name}_device OBJECT ${A_CUDA})
  target_include_directories(${name}_device PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  # 2810: nvcc takes an assignment to a [[nodiscard]] class, which returns a reference, for a lost value.
  target_compile_options(${name}_device PRIVATE "SHELL:-Xcompiler -Wall,-Wextra" --Werror=all-warnings
    -diag-suppress=2810)
  add_library(${name} STATIC ${A_SRCS} $<TARGET_OBJECTS:${name}_device>)
  target_link_libraries(${name} PUBLIC oms_flags ${A_DEPS} CUDA::cudart_static)
endfunction()

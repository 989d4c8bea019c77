# Building a chapter's kernel twice: for the emulator always, for the GPU where there is a CUDA
# toolkit. Included by each chapter from 03 on, after project.cmake.

# Sets FA_CUDA_CODES, the machine code to make, FA_CUDA_FLAGS, nvcc's options for it, and
# FA_CUDA_CARDS, the cards that kernels can be made for.
# sm_80 is the oldest GPU that has cp.async and bf16 mma; its code also runs on sm_86 and sm_89. By
# default: the code of this machine's GPU, and that of the H100 where there is none. It is made from
# compute_80's PTX, which is there too: any other GPU translates it when it loads a kernel for the
# first time. -DFA_CUDA_CODES="sm_80;sm_90" makes both, and nvcc reads each file once.
# -DCMAKE_CUDA_ARCHITECTURES=90 makes that alone, in CMake's own way: each from its own PTX.
macro(fa_cuda_architectures)
  set(FA_CUDA_FLAGS "")
  if(CMAKE_CUDA_ARCHITECTURES)  # not the OFF from below
    list(TRANSFORM CMAKE_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE FA_CUDA_CODES)
    list(TRANSFORM FA_CUDA_CODES REPLACE "-real$" "")
    list(FILTER FA_CUDA_CODES INCLUDE REGEX "^sm_[0-9]+[a-z]?$")
    if(NOT FA_CUDA_CODES)  # native, all
      set(FA_CUDA_CODES sm_)
    endif()
    set(FA_CUDA_CARDS "${FA_CUDA_CODES}")
  else()
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    if(NOT FA_CUDA_CARDS)
      execute_process(COMMAND "${FA_NVCC}" --list-gpu-code OUTPUT_VARIABLE known)
      string(REGEX MATCHALL "sm_(80|90)\n" known "${known}")
      list(TRANSFORM known STRIP)
      set(FA_CUDA_CARDS "${known}" CACHE INTERNAL "")
    endif()
    if(NOT FA_CUDA_CODES)
      execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE card RESULT_VARIABLE none ERROR_QUIET)
      list(GET FA_CUDA_CARDS -1 code)
      if(none EQUAL 0 AND card MATCHES "^8")
        set(code sm_80)
      endif()
      set(FA_CUDA_CODES ${code} CACHE STRING "Machine code of kernels that any GPU from sm_80 on has")
    endif()
    string(REPLACE ";" "," codes "${FA_CUDA_CODES}")
    set(FA_CUDA_FLAGS "SHELL:-gencode arch=compute_80,code=[compute_80,${codes}]")
  endif()
endmacro()

option(FA_CUDA "Build the GPU kernels where a CUDA toolkit is found" ON)
if(FA_CUDA)
  find_program(FA_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin)
  if(FA_NVCC)
    fa_cuda_architectures()
    set(CMAKE_CUDA_COMPILER "${FA_NVCC}")
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # unknown to CMake 3.25
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
  endif()
endif()

include_guard(GLOBAL)
if(NOT FA_CUDA)
  message(STATUS "GPU targets left out (FA_CUDA is OFF): chapters 03 on run on the emulator")
elseif(NOT FA_NVCC)
  message(STATUS "GPU targets left out (no nvcc found): chapters 03 on run on the emulator")
else()
  string(REPLACE ";" " " codes "${FA_CUDA_CODES}")
  message(STATUS "GPU targets for ${codes} with ${FA_NVCC}")
endif()

if(NOT TARGET fa_simt)
  add_subdirectory("${FA_ROOT}/common/simt" "${CMAKE_BINARY_DIR}/common/simt")
endif()
if(NOT TARGET fa_golden)
  add_subdirectory("${FA_ROOT}/reference" "${CMAKE_BINARY_DIR}/reference")
endif()
add_subdirectory("${FA_ROOT}/common/kernels" "${CMAKE_BINARY_DIR}/common/kernels")

# fa_kernel_chapter(DIRECTORY [BACKWARD|DECODE] [MACHINE_CODE sm_90a]): the library chNN_kernel with the two
# builds that chapter.hpp declares, emulator::chNN::build and gpu::chNN::build, of a forward or a
# backward pass. Without MACHINE_CODE the GPU's is made for sm_80 and up; with it, for that one card.
# A build that cannot make it leaves the GPU part out, and the program says why. The second call of
# the same name does nothing.
function(fa_kernel_chapter directory)
  cmake_parse_arguments(ARG "BACKWARD;DECODE" "MACHINE_CODE" "" ${ARGN})
  fa_kernel_name(${directory} FA_CHAPTER)
  set(target ch${FA_CHAPTER}_kernel)
  if(TARGET ${target})
    return()
  endif()
  set(FA_PASS forward)
  if(ARG_BACKWARD)
    set(FA_PASS backward)
  elseif(ARG_DECODE)
    set(FA_PASS decode)
  endif()
  set_property(GLOBAL APPEND PROPERTY FA_${FA_PASS}_CHAPTERS ${directory})
  set(FA_DIRECTORY ${directory})
  fa_machine_code("${ARG_MACHINE_CODE}")

  set(generated "${CMAKE_BINARY_DIR}/kernels")
  configure_file("${FA_ROOT}/common/kernels/build.cpp.in" "${generated}/${target}_emulator.cpp")
  add_library(${target} STATIC "${generated}/${target}_emulator.cpp")
  target_compile_options(${target} PRIVATE ${FA_LITTLE_OPTIMIZED})
  target_link_libraries(${target} PUBLIC fa_kernels fa_simt)
  if(NOT FA_LEFT_OUT)
    file(REMOVE "${generated}/${target}_no_gpu.cpp")  # of a build without GPU kernels
    configure_file("${FA_ROOT}/common/kernels/build.cpp.in" "${generated}/${target}_gpu.cu")
    add_library(${target}_gpu STATIC "${generated}/${target}_gpu.cu")
    target_link_libraries(${target}_gpu PUBLIC fa_kernels)
    fa_cuda_options(${target}_gpu ${ARG_MACHINE_CODE})
    string(REPLACE ";" "," codes "${FA_CUDA_CODES}")
    if(ARG_MACHINE_CODE)
      set(codes ${ARG_MACHINE_CODE})
    endif()
    set_target_properties(${target}_gpu PROPERTIES FA_CODES ${codes})
    target_link_libraries(${target} PUBLIC ${target}_gpu)
  else()
    file(REMOVE "${generated}/${target}_gpu.cu")
    configure_file("${FA_ROOT}/common/kernels/no_gpu.cpp.in" "${generated}/${target}_no_gpu.cpp")
    target_sources(${target} PRIVATE "${generated}/${target}_no_gpu.cpp")
  endif()
endfunction()

# 04_swizzling: 04.
function(fa_kernel_name directory result)
  string(SUBSTRING "${directory}" 0 2 name)
  set(${result} "${name}" PARENT_SCOPE)
endfunction()

# Sets FA_MACHINE_CODE, the card that a kernel needs at least ("sm_80"), or alone ("sm_90a"), and
# FA_LEFT_OUT, the reason why this build has no GPU kernel of it, or nothing.
function(fa_machine_code only)
  set(left_out "")
  if(NOT FA_CUDA)
    set(left_out "this build has no GPU kernels, as FA_CUDA is OFF")
  elseif(NOT FA_NVCC)
    set(left_out "this build has no GPU kernels, as no CUDA toolkit was found")
  elseif(only)
    set(code ${only})
    string(REGEX REPLACE "a$" "" family ${only})
    execute_process(COMMAND "${FA_NVCC}" -arch=${only} --dryrun -c none.cu
      RESULT_VARIABLE unknown OUTPUT_QUIET ERROR_QUIET)  # --list-gpu-code does not list sm_90a
    if(unknown)
      set(left_out "this build has no GPU kernel of chapter ${FA_CHAPTER}: its nvcc knows no ${only}")
    elseif(NOT "${FA_CUDA_CARDS}" MATCHES "(^|;)(${family}|sm_$)")
      set(left_out "this build has no GPU kernel of chapter ${FA_CHAPTER}: it makes no ${only}")
    endif()
    if(left_out)
      message(STATUS "GPU kernel left out: ${left_out}")
    endif()
  else()
    list(SORT FA_CUDA_CARDS COMPARE NATURAL)
    list(GET FA_CUDA_CARDS 0 code)
    if(code STREQUAL "sm_")  # native, all: nobody says which
      set(code sm_80)
    endif()
  endif()
  set(FA_MACHINE_CODE "${code}" PARENT_SCOPE)
  set(FA_LEFT_OUT "${left_out}" PARENT_SCOPE)
endfunction()

# fa_previous_chapter(DIRECTORY): the kernel of the chapter before, whose counters a chapter prints
# beside its own; as that chapter's own CMakeLists.txt declares it.
function(fa_previous_chapter directory)
  file(STRINGS "${FA_ROOT}/chapters/${directory}/CMakeLists.txt" call
    REGEX "^fa_kernel_chapter\\(${directory}")
  cmake_language(EVAL CODE "${call}")
endfunction()

# fa_kernel_sweep(DIRECTORY [STAGES n]): the program chNN_sweep, which times the chapter's kernel at
# several tile sizes. It instantiates the kernel many times: built only when asked for.
function(fa_kernel_sweep directory)
  cmake_parse_arguments(ARG "" "STAGES" "" ${ARGN})
  string(SUBSTRING ${directory} 0 2 chapter)
  if(NOT TARGET ch${chapter}_kernel_gpu)
    return()
  endif()
  set(target ch${chapter}_sweep)
  fa_program(${target} "${FA_ROOT}/common/kernels/sweep.cu" LIBRARIES fa_kernels)
  target_compile_definitions(${target} PRIVATE FA_CHAPTER=ch${chapter}
    FA_CHAPTER_NAME="ch${chapter}" FA_CHAPTER_HEADER="chapters/${directory}/attention.hpp")
  if(ARG_STAGES)
    target_compile_definitions(${target} PRIVATE FA_STAGES=${ARG_STAGES})
  endif()
  fa_cuda_options(${target})
  # nvcc writes parentheses into what it hands on to g++, which then warns of them.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-parentheses>)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
endfunction()

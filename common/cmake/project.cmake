# What every directory of the project needs, included once by whichever is configured first:
# the root, or a chapter on its own (cmake -S chapters/04_swizzling -B /tmp/b).
include_guard(GLOBAL)

get_filename_component(FA_ROOT "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

option(FA_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)
option(FA_SANITIZE_THREAD "Build with the thread sanitizer" OFF)
option(FA_FUZZ "Build the libFuzzer targets (clang)" OFF)
# Several sources of a library are compiled as one, so that the headers that they share are read once:
# half of the time or less. A name in an unnamed namespace is then one per library.
option(FA_UNITY "Compile the sources of a library in groups" ON)
option(FA_WERROR "Warnings are errors: for CI, whose compilers are known" OFF)

# No fused multiply-add behind our back: the lessons quote numbers, and
# a contracted a*b+c changes their last digits from one machine to the next.
add_library(fa_flags INTERFACE)
target_compile_options(fa_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(FA_WERROR)
  target_compile_options(fa_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # false alarm on "text" + std::string (GCC bug 105651)
  target_compile_options(fa_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
target_include_directories(fa_flags INTERFACE "${FA_ROOT}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Some 200 programs, and gold takes half of the other linker's time. In a library it exports more
  # than it is told.
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold FA_GOLD)
  if(FA_GOLD)
    target_link_options(fa_flags INTERFACE
      $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<HOST_LINK:-fuse-ld=gold>>)
  endif()
endif()
if(FA_SANITIZE)
  target_compile_definitions(fa_flags INTERFACE FA_SANITIZED)
  target_compile_options(fa_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined$<SEMICOLON>-fno-sanitize-recover=all>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer$<SEMICOLON>-g1>)
  target_link_options(fa_flags INTERFACE -fsanitize=address,undefined)
endif()
if(FA_SANITIZE_THREAD)
  target_compile_definitions(fa_flags INTERFACE FA_SANITIZED)
  target_compile_options(fa_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread$<SEMICOLON>-g1>)
  target_link_options(fa_flags INTERFACE -fsanitize=thread)
endif()

find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(doctest REQUIRED)

# A Python that has NumPy: the one on the PATH may not, while the system's does.
if(NOT FA_PYTHON)
  foreach(candidate python3 /usr/bin/python3)
    execute_process(COMMAND ${candidate} -c "import numpy, sys; print(sys.executable)"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result ERROR_QUIET)
    if(result EQUAL 0)
      set(FA_PYTHON "${found}" CACHE FILEPATH "A Python 3 interpreter that imports NumPy")
      break()
    endif()
  endforeach()
  if(NOT FA_PYTHON)
    message(FATAL_ERROR "No Python 3 with NumPy found: install python3-numpy or set -DFA_PYTHON=")
  endif()
endif()

enable_testing()

# fa_unity(TARGET [n]): its sources, up to n of them at a time, are one for the compiler.
function(fa_unity target)
  set(size 12 ${ARGN})
  list(GET size -1 size)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FA_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# For what computes nothing, tests first of all: it compiles in half of the time.
set(FA_NOT_OPTIMIZED -O0)
# For what computes little, or calls the emulator for each step: in two thirds of the time.
set(FA_LITTLE_OPTIMIZED $<$<COMPILE_LANGUAGE:CXX>:-O1>)

# One doctest main for every test program: compiling it takes seconds.
add_library(fa_doctest_main OBJECT "${FA_ROOT}/common/doctest_main.cpp")
target_link_libraries(fa_doctest_main PUBLIC fa_flags doctest::doctest)
target_compile_options(fa_doctest_main PRIVATE ${FA_NOT_OPTIMIZED})
# A third of a test's compile time is these headers, so g++ parses them once for all tests.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_library(fa_test_headers OBJECT EXCLUDE_FROM_ALL "${FA_ROOT}/common/precompiled.cpp")
  target_link_libraries(fa_test_headers PRIVATE fa_flags doctest::doctest)
  target_compile_options(fa_test_headers PRIVATE ${FA_NOT_OPTIMIZED})
  target_precompile_headers(fa_test_headers PRIVATE <doctest/doctest.h> <algorithm> <cmath> <functional>
    <limits> <map> <memory> <optional> <random> <span> <string> <vector>)
endif()

# fa_program(NAME SOURCES… LIBRARIES… [BREAKS DIRECTORY] [SMALL]): a program of the tutorial, in
# <build>/bin. BREAKS: it includes "breaks/NAME.hpp", made from the breaks.json of chapters/DIRECTORY.
# SMALL: of the common code it needs only what its libraries name.
function(fa_program name)
  cmake_parse_arguments(ARG "SMALL" "BREAKS" "LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${FA_LITTLE_OPTIMIZED})
  fa_unity(${name})
  if(ARG_BREAKS)
    set(table "${CMAKE_BINARY_DIR}/generated/breaks/${name}.hpp")
    file(GLOB texts CONFIGURE_DEPENDS "${FA_ROOT}/chapters/*/breaks.json"
      "${FA_ROOT}/chapters/*/*/breaks.json")  # a line is in the first chapter that has its break
    add_custom_command(OUTPUT "${table}" DEPENDS ${texts} "${FA_ROOT}/common/cmake/breaks.py"
      COMMAND ${CMAKE_COMMAND} -E make_directory "${CMAKE_BINARY_DIR}/generated/breaks"
      COMMAND "${FA_PYTHON}" -B "${FA_ROOT}/common/cmake/breaks.py" ${ARG_BREAKS} "${table}" VERBATIM)
    target_sources(${name} PRIVATE "${table}")
    target_include_directories(${name} PRIVATE "${CMAKE_BINARY_DIR}/generated")
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES})
  if(TARGET fa_program_headers AND ARG_LIBRARIES MATCHES "ch[0-9]+_kernel")
    target_precompile_headers(${name} REUSE_FROM fa_program_headers)
  endif()
  if(NOT ARG_SMALL)
    target_link_libraries(${name} PRIVATE fa_common)
  endif()
endfunction()

# fa_test(NAME SOURCES… LIBRARIES… CHAPTER NN [THREADS n] [LARGE] [OPTIMIZED]): a doctest program, in
# <build>/tests; CTest label chNN. LARGE: test cases marked * doctest::test_suite("large") are a test
# of their own, NAME_large, with the label large: ./learn test leaves it out, ./learn test --all does
# not. OPTIMIZED: its sources are, because the test would run longer than the compiler saves.
function(fa_test name)
  cmake_parse_arguments(ARG "LARGE;OPTIMIZED" "CHAPTER;TIMEOUT;THREADS" "LIBRARIES" ${ARGN})
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS} $<TARGET_OBJECTS:fa_doctest_main>)
  target_link_libraries(test_${name} PRIVATE fa_common doctest::doctest ${ARG_LIBRARIES})
  if(NOT ARG_OPTIMIZED)
    target_compile_options(test_${name} PRIVATE ${FA_NOT_OPTIMIZED})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_precompile_headers(test_${name} REUSE_FROM fa_test_headers)
    endif()
  endif()
  target_compile_definitions(test_${name} PRIVATE FA_SOURCE_DIR="${FA_ROOT}"
    FA_BINARY_DIR="${CMAKE_BINARY_DIR}" FA_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  set_target_properties(test_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND test_${name} --no-version --test-suite-exclude=large)
  fa_label_test(${name} "${ARG_CHAPTER}" "${ARG_TIMEOUT}" ${ARG_THREADS})
  if(ARG_LARGE AND NOT FA_SANITIZE)  # minutes there, and nothing in it that the others lack
    add_test(NAME ${name}_large COMMAND test_${name} --no-version --test-suite=large)
    fa_label_test(${name}_large "${ARG_CHAPTER}" 1200 ${ARG_THREADS})
    set_property(TEST ${name}_large APPEND PROPERTY LABELS large)
    set_tests_properties(${name}_large PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  endif()
endfunction()

# fa_command_test(NAME COMMAND … CHAPTER NN): any command whose exit status says whether it passed.
# It runs in the caller's source directory with <build>/bin first on the PATH. With STATUS n OUTPUT
# regex: it must exit with n, and print what the regular expression (Python's) finds.
function(fa_command_test name)
  cmake_parse_arguments(ARG "" "CHAPTER;TIMEOUT;STATUS;OUTPUT" "COMMAND" ${ARGN})
  if(ARG_OUTPUT)  # add_test replaces the name of a target in the first place only
    list(POP_FRONT ARG_COMMAND program)
    if(TARGET ${program})
      set(program $<TARGET_FILE:${program}>)
    endif()
    list(PREPEND ARG_COMMAND "${FA_PYTHON}" -B "${FA_ROOT}/common/cmake/expect.py" ${ARG_STATUS}
      "${ARG_OUTPUT}" ${program})
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT_MODIFICATION "PATH=path_list_prepend:${CMAKE_BINARY_DIR}/bin")
  fa_label_test(${name} "${ARG_CHAPTER}" "${ARG_TIMEOUT}")
endfunction()

# CTest runs as many tests at a time as there are cores, so one has one thread, or as many as it
# tells CTest of.
function(fa_label_test name chapter timeout)
  set(threads 1 ${ARGN})
  list(GET threads -1 threads)
  if(chapter)
    set_tests_properties(${name} PROPERTIES LABELS "ch${chapter}")
  endif()
  if(NOT timeout)
    set(timeout 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} PROCESSORS ${threads}
    ENVIRONMENT "FA_THREADS=${threads};ASAN_OPTIONS=exitcode=99:detect_leaks=0;UBSAN_OPTIONS=exitcode=99:print_stacktrace=1")
endfunction()

if(NOT TARGET fa_common)
  add_subdirectory("${FA_ROOT}/common" "${CMAKE_BINARY_DIR}/common")
endif()

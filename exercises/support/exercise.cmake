# exercise(NN_topic exK_name [LIBRARIES …]): one exercise of the track.
#
# exercises/NN_topic/exK_name/  README.md, name.hpp (or name.txt: a trace; or name.cu and main.cu: plain
#                               CUDA), test.cpp, hints.md
# solutions/NN_topic/exK_name/  name.hpp, mistakes.txt
#
# test.cpp includes <name.hpp>, and the include path says which answer that is. The program
# exercise_NN.K gets a header that mistakes.py writes: it holds the stub, the solution and all
# mistakes, and CTest exercise_NN.K proves them all (prove.py). The program exNN.K_name, in
# <build>/bin, is built against the learner's copy below FA_MY_EXERCISES, or against the stub while
# there is no copy. It is not part of `all`, so that an unfinished copy breaks no build.
set(FA_MY_EXERCISES "${FA_ROOT}/my_exercises" CACHE PATH "Where the learner's copies are")

add_library(exercise_support STATIC "${FA_ROOT}/exercises/support/verdict.cpp"
  "${FA_ROOT}/exercises/support/table.cpp" "${FA_ROOT}/exercises/support/instances.cpp")
target_link_libraries(exercise_support PUBLIC fa_flags doctest::doctest)
target_compile_options(exercise_support PRIVATE ${FA_NOT_OPTIMIZED})
# A test's own answer asks millions of times which change it shall make, and each run is compared with
# what every mistake shows.
set_source_files_properties("${FA_ROOT}/exercises/support/table.cpp"
  "${FA_ROOT}/exercises/support/verdict.cpp" PROPERTIES COMPILE_OPTIONS -O2)
add_library(exercise_trace STATIC EXCLUDE_FROM_ALL "${FA_ROOT}/exercises/support/trace.cpp")
target_link_libraries(exercise_trace PUBLIC exercise_support ch01_machine)
target_compile_options(exercise_trace PRIVATE ${FA_NOT_OPTIMIZED})
add_library(exercise_warp STATIC EXCLUDE_FROM_ALL "${FA_ROOT}/exercises/support/warp.cpp")
target_link_libraries(exercise_warp PUBLIC exercise_support fa_simt)
target_compile_options(exercise_warp PRIVATE ${FA_NOT_OPTIMIZED})
if(TARGET emucuda)
  add_library(exercise_cuda STATIC EXCLUDE_FROM_ALL "${FA_ROOT}/exercises/support/cuda.cpp")
  target_link_libraries(exercise_cuda PUBLIC exercise_support PRIVATE nlohmann_json::nlohmann_json)
  target_compile_definitions(exercise_cuda PRIVATE EXERCISE_EMUCUDA="$<TARGET_FILE:emucuda>")
  target_compile_options(exercise_cuda PRIVATE ${FA_NOT_OPTIMIZED})
  add_dependencies(exercise_cuda emucuda)
else()
  message(STATUS "exercises in plain CUDA left out: they need clang-19 and llvm-19-dev")
endif()
# Linked last, because what comes later on the command line wins. A stub has no use for its parameters
# and constants yet; a learner's warnings are no errors; what is tested are answers, not speed.
add_library(exercise_answer INTERFACE)
target_compile_options(exercise_answer INTERFACE
  ${FA_NOT_OPTIMIZED} -Wno-unused-parameter -Wno-unused-variable -Wno-unused-function)
add_library(exercise_learner INTERFACE)
target_compile_options(exercise_learner INTERFACE -Wno-error)
# Half of a test's compile time is these headers; parsed once, they cost nothing.
add_library(exercise_headers STATIC "${FA_ROOT}/common/precompiled.cpp")
target_link_libraries(exercise_headers PRIVATE exercise_support exercise_answer)
target_precompile_headers(exercise_headers PRIVATE <doctest/doctest.h> <algorithm> <cmath> <span>
  <string> <vector> "${FA_ROOT}/exercises/support/instances.hpp")
add_library(exercise_warp_headers STATIC EXCLUDE_FROM_ALL "${FA_ROOT}/common/precompiled.cpp")
target_link_libraries(exercise_warp_headers PRIVATE exercise_warp exercise_answer)
target_precompile_headers(exercise_warp_headers PRIVATE <doctest/doctest.h> <algorithm> <cmath> <span>
  <string> <vector> "${FA_ROOT}/exercises/support/instances.hpp"
  "${FA_ROOT}/exercises/support/warp.hpp" "${FA_ROOT}/exercises/support/todo.hpp")
add_custom_target(my_exercises)

function(exercise topic exercise)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  if(topic MATCHES "^([0-9][0-9])_")
    set(chapter "${CMAKE_MATCH_1}")
  else()  # debugging: D.1, …, so that no chapter's number is taken
    string(SUBSTRING "${topic}" 0 1 chapter)
    string(TOUPPER "${chapter}" chapter)
  endif()
  if(NOT exercise MATCHES "^ex([0-9]+)_(.+)$")
    message(FATAL_ERROR "exercise(${topic} ${exercise}): the name must be exK_name")
  endif()
  set(id "${chapter}.${CMAKE_MATCH_1}")
  set(name "${CMAKE_MATCH_2}")
  set(here "${FA_ROOT}/exercises/${topic}/${exercise}")
  set(solution "${FA_ROOT}/solutions/${topic}/${exercise}")
  set(copy "${FA_MY_EXERCISES}/${topic}/${exercise}")
  set(mine "ex${id}_${name}")
  set(mistakes "${FA_ROOT}/exercises/support/mistakes.py")

  if(EXISTS "${here}/${name}.txt")  # a trace: one program judges any file
    exercise_program(${mine} "" bin)
    target_link_libraries(${mine} PRIVATE exercise_trace)
    target_compile_definitions(${mine} PRIVATE EXERCISE_STUB="${here}/${name}.txt"
      EXERCISE_COPY="${copy}/${name}.txt")
    set(proofs --trace --program $<TARGET_FILE:${mine}>)
    set(all ${mine})
  elseif(EXISTS "${here}/${name}.cu")  # plain CUDA: one program compiles and judges any file
    if(NOT TARGET exercise_cuda)
      return()
    endif()
    exercise_program(${mine} "" bin)
    target_link_libraries(${mine} PRIVATE exercise_cuda)
    target_compile_definitions(${mine} PRIVATE EXERCISE_MAIN="${here}/main.cu"
      EXERCISE_STUB="${here}/${name}.cu" EXERCISE_COPY="${copy}/${name}.cu")
    set(proofs --trace --program $<TARGET_FILE:${mine}>)
    set(all ${mine})
  else()
    set(all "exercise_${id}")
    set(proof "${CMAKE_BINARY_DIR}/exercises/proofs/${id}")
    add_custom_command(OUTPUT "${proof}/${name}.hpp"
      COMMAND "${FA_PYTHON}" -B "${mistakes}" "${topic}/${exercise}" --proof "${proof}/${name}.hpp"
      DEPENDS "${mistakes}" "${here}/${name}.hpp" "${solution}/${name}.hpp"
        "${solution}/mistakes.txt" VERBATIM)
    exercise_program(${all} "${proof}" "exercises/programs")
    target_sources(${all} PRIVATE "${proof}/${name}.hpp")
    set(proofs --program $<TARGET_FILE:${all}>)
    file(GLOB copied CONFIGURE_DEPENDS "${copy}/${name}.hpp")
    if(copied)
      exercise_program(${mine} "${copy}" bin)
    else()
      exercise_program(${mine} "${here}" bin)
    endif()
    target_link_libraries(${mine} PRIVATE exercise_learner)
    set_target_properties(${mine} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()

  if(NOT TARGET exercises_${chapter})
    add_custom_target(exercises_${chapter})
  endif()
  add_dependencies(exercises_${chapter} ${all})
  add_dependencies(my_exercises ${mine})
  add_test(NAME exercise_${id} COMMAND "${FA_PYTHON}" -B "${FA_ROOT}/exercises/support/prove.py"
    "${topic}/${exercise}" ${proofs})
  fa_label_test(exercise_${id} "${chapter}" 300)
endfunction()

# One test.cpp against the answer in `directory`. Reads the variables of exercise().
function(exercise_program target directory output)
  add_executable(${target} "${here}/test.cpp" $<TARGET_OBJECTS:fa_doctest_main>)
  target_link_libraries(${target} PRIVATE exercise_support ${ARG_LIBRARIES} exercise_answer)
  if(directory)
    target_include_directories(${target} BEFORE PRIVATE "${directory}")
    if("exercise_warp" IN_LIST ARG_LIBRARIES)
      target_precompile_headers(${target} REUSE_FROM exercise_warp_headers)
    else()
      target_precompile_headers(${target} REUSE_FROM exercise_headers)
    endif()
  endif()
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/${output}")
endfunction()

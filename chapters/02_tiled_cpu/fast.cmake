# The fast version and the measured peaks of the machine: all of this chapter that needs Highway.
add_library(ch02_fast STATIC fast.cpp peak.cpp)
target_link_libraries(ch02_fast PUBLIC fa_common PRIVATE hwy::hwy)

fa_test(ch02_fast test_fast.cpp LIBRARIES ch02_fast CHAPTER 02)

# Naive, tiled and fast by length: <build>/bin/ch02_bench
find_package(benchmark QUIET)
if(benchmark_FOUND)
  fa_program(ch02_bench bench.cpp LIBRARIES ch02 ch02_fast benchmark::benchmark)
else()
  message(STATUS "ch02_bench left out: Google Benchmark was not found (libbenchmark-dev)")
endif()

# What docs/measurements/bench_cpu_peers.py loads to race PyTorch: cmake --build B --target ch02_fast_shared
add_library(ch02_fast_shared MODULE EXCLUDE_FROM_ALL fast.cpp peak.cpp fast_shared.cpp
  "${FA_ROOT}/common/memory.cpp" "${FA_ROOT}/common/memory_bytes.cpp"
  "${FA_ROOT}/common/parallel.cpp")
target_link_libraries(ch02_fast_shared PRIVATE fa_flags hwy::hwy Threads::Threads)
set_target_properties(ch02_fast_shared PROPERTIES OUTPUT_NAME ch02_fast
  BUILD_RPATH "$ORIGIN" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

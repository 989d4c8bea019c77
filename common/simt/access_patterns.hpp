#pragma once
// A kernel with one warp instruction, in which each lane accesses the element that a table names. A
// test checks the emulator's counts. On a GPU, docs/measurements/access_patterns.py lets Nsight
// Compute count the same patterns.

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/backend.hpp"

namespace FA_BACKEND::access_patterns {

constexpr int MOST_ELEMENTS = 2048;

struct Lanes {
  int element[32];  // -1 if this lane does nothing
};

enum class Access { kLoadShared, kStoreShared, kLoadGlobal, kStoreGlobal };

template <int WORDS>
struct alignas(4 * WORDS) Words {
  uint32_t word[WORDS];
};

template <class T>
FA_KERNEL void access(Access kind, Lanes lanes, T* array, T* sink) {
  const int lane = thread_index();
  const int element = lanes.element[lane];
  if (element < 0) return;
  const uint32_t smem = dynamic_smem() + static_cast<uint32_t>(element) * sizeof(T);
  if (kind == Access::kLoadShared) store_global(sink + lane, load_shared<T>(smem));
  if (kind == Access::kStoreShared) store_shared<T>(smem, T{});
  if (kind == Access::kLoadGlobal)
    store_shared<T>(dynamic_smem() + lane * sizeof(T), load_global(array + element));
  if (kind == Access::kStoreGlobal) store_global(array + element, T{});
}

struct Pattern {
  Access kind;
  int bytes;
  Lanes lanes;
  long counted;  // on the GPU, in wavefronts of shared memory or sectors of global memory
  int line;      // of the file
};

// Reads access_patterns.csv. A row has 32 elements (- for a lane that does nothing) and, for each
// "instruction bytes" that the first row names, the count or nothing. Each count is a pattern.
inline std::vector<Pattern> read_patterns(const std::string& path) {
  std::ifstream file(path);
  std::string row, field, element;
  std::getline(file, row);
  std::istringstream names(row);
  std::getline(names, field, ',');
  std::vector<Pattern> columns, patterns;
  for (Pattern column{}; std::getline(names, field, ','); columns.push_back(column)) {
    std::istringstream(field) >> element >> column.bytes;
    column.kind = element == "load_shared"    ? Access::kLoadShared
                  : element == "store_shared" ? Access::kStoreShared
                  : element == "load_global"  ? Access::kLoadGlobal
                                              : Access::kStoreGlobal;
  }
  for (int line = 2; std::getline(file, row); ++line) {
    std::istringstream fields(row);
    std::getline(fields, field, ',');
    std::istringstream elements(field);
    Lanes lanes;
    for (int& lane : lanes.element) {
      if (!(elements >> element)) throw std::runtime_error(path + ": fewer than 32 lanes: " + row);
      lane = element == "-" ? -1 : std::stoi(element);
    }
    for (Pattern pattern : columns) {
      if (!std::getline(fields, field, ',') || field.empty()) continue;
      pattern.lanes = lanes;
      pattern.counted = std::stol(field);
      pattern.line = line;
      patterns.push_back(pattern);
    }
  }
  return patterns;
}

template <class T>
void run(const Pattern& pattern, void* array, void* sink) {
  launch(access<T>, 1, 32, MOST_ELEMENTS * sizeof(T), pattern.kind, pattern.lanes,
         static_cast<T*>(array), static_cast<T*>(sink));
}

// `array` and `sink` have room for MOST_ELEMENTS elements of 16 bytes.
inline void run(const Pattern& pattern, void* array, void* sink) {
  if (pattern.bytes == 2) run<uint16_t>(pattern, array, sink);
  if (pattern.bytes == 4) run<uint32_t>(pattern, array, sink);
  if (pattern.bytes == 8) run<Words<2>>(pattern, array, sink);
  if (pattern.bytes == 16) run<Words<4>>(pattern, array, sink);
}

}  // namespace FA_BACKEND::access_patterns

#pragma once
// Reads and writes NumPy's .npy files, versions 1.0 to 3.0, with little-endian float16, float32,
// float64 and int32 in C order. Format: numpy.lib.format in NumPy's documentation.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa {

enum class NpyType { f16, f32, f64, i32 };
const char* name(NpyType type);  // "float16"

struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<int64_t> shape;
  std::string bytes;  // elements in C order

  int64_t size() const;                 // number of elements
  std::vector<float> floats() const;    // float64 and int32 are rounded
  std::vector<double> doubles() const;  // exact
};

using NpyTypes = std::vector<NpyType>;
inline const NpyTypes kNpyTypes = {NpyType::f16, NpyType::f32, NpyType::f64, NpyType::i32};

// Parses the bytes of a .npy file. Error messages call the file `name`. Throws InputError with its
// own sentence for each kind of error, including a type that is not in `accepted`. Never reads past
// the end and never allocates more than the file holds.
NpyArray parse_npy(std::string_view file, const std::string& name,
                   const NpyTypes& accepted = kNpyTypes);

// Calls read_file and parse_npy.
NpyArray read_npy(const std::string& path, const NpyTypes& accepted = kNpyTypes);

// Returns the bytes of a version 1.0 file.
std::string npy_bytes(std::span<const float> values, std::span<const int64_t> shape);
std::string npy_bytes(std::span<const double> values, std::span<const int64_t> shape);

// Calls npy_bytes and write_file, so that the file is complete or absent.
void write_npy(const std::string& path, std::span<const float> values,
               std::span<const int64_t> shape);

}  // namespace fa

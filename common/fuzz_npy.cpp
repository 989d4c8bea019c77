// libFuzzer target for the .npy reader. Any bytes must give either a consistent array or an
// InputError of one printable line. Build and run with clang:
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_npy
//   reference/fuzz_corpus.py --out build-fuzz/corpus
//   build-fuzz/bin/fuzz_npy -max_len=4096 build-fuzz/corpus

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/npy.hpp"

namespace {

void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const fa::NpyArray array = fa::parse_npy(file, "input");
    const std::vector<double> values = array.doubles();
    require(values.size() == static_cast<size_t>(array.size()), "size() is the number of elements");
    require(array.floats().size() == values.size(), "floats() has every element");
    require(array.bytes.size() <= size, "no more bytes than the file holds");

    // An array that was read can be written and read again with the same shape and values.
    const fa::NpyArray again = fa::parse_npy(fa::npy_bytes(values, array.shape), "again");
    require(again.type == fa::NpyType::f64 && again.shape == array.shape, "shape survives a copy");
    require(
        values.empty() || std::memcmp(again.bytes.data(), values.data(), again.bytes.size()) == 0,
        "numbers survive a copy");
  } catch (const fa::InputError& error) {
    const std::string_view what = error.what();
    require(what.starts_with("input: "), "an error names the file that was read");
    for (const char c : what) require(c >= ' ' && c <= '~', "an error is one printable line");
  }
  return 0;
}

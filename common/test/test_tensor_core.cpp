// Compares the tensor core's sums with the results of an H100, and the fast implementation with the
// plain one.

#include "common/tensor_core.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using fa::bf16, fa::e4m3, fa::fp16;

std::vector<uint32_t> codes_of(const std::string& hex, int digits) {
  std::vector<uint32_t> codes;
  for (size_t i = 0; i < hex.size(); i += static_cast<size_t>(digits))
    codes.push_back(static_cast<uint32_t>(std::stoul(hex.substr(i, digits), nullptr, 16)));
  return codes;
}

template <class T>
float number(uint32_t code) {
  return fa::to_float(T{static_cast<decltype(T::bits)>(code)});
}

template <class T>
uint32_t sum_of(uint32_t c, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  REQUIRE(a.size() == fa::kSumRule<T>.products);
  REQUIRE(b.size() == fa::kSumRule<T>.products);
  std::vector<float> x, y;
  for (const uint32_t code : a) x.push_back(number<T>(code));
  for (const uint32_t code : b) y.push_back(number<T>(code));
  return std::bit_cast<uint32_t>(
      fa::tensor_core_sum<T>(std::bit_cast<float>(c), x.data(), 1, y.data()));
}

uint32_t integer_sum(uint32_t c, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  for (size_t k = 0; k < a.size(); ++k) {
    c += static_cast<uint32_t>(static_cast<int8_t>(a[k]) * static_cast<int8_t>(b[k]));
  }
  return c;
}

class Random {
 public:
  uint32_t bits() { return (state_ = state_ * 6364136223846793005u + 1442695040888963407u) >> 32; }

 private:
  uint64_t state_ = 1;
};

// Compares all sums of a tile with each sum alone. `exponents` limits the codes, and 0 means any
// bits.
template <class T, int ROWS>
void compare(Random& random, uint32_t and_mask, uint32_t or_mask, uint32_t c_and, uint32_t c_or) {
  constexpr int kColumns = 8, kDepth = fa::kSumRule<T>.products, kWords = fa::kWordsAtATime;
  constexpr int kEach = kDepth / kWords, kBits = 32 / kEach;
  std::vector<uint32_t> a(kWords * ROWS), b(kColumns * kWords);
  std::vector<float> sums(kColumns * ROWS);
  for (uint32_t& word : a) word = (random.bits() & and_mask) | or_mask;
  for (uint32_t& word : b) word = (random.bits() & and_mask) | or_mask;
  for (float& sum : sums) sum = std::bit_cast<float>((random.bits() & c_and) | c_or);
  std::vector<float> got = sums;
  fa::tensor_core_multiply<T, ROWS>(got.data(), kColumns, a.data(), b.data());
  int different = 0;
  for (int column = 0; column < kColumns; ++column) {
    for (int row = 0; row < ROWS; ++row) {
      float x[kDepth], y[kDepth];
      for (int k = 0; k < kDepth; ++k) {
        const uint32_t mask = kBits == 32 ? ~0u : (1u << kBits) - 1;
        const int word = k / kEach, shift = k % kEach * kBits;
        x[k] = number<T>(a[word * ROWS + row] >> shift & mask);
        y[k] = number<T>(b[column * kWords + word] >> shift & mask);
      }
      const float want = fa::tensor_core_sum<T>(sums[column * ROWS + row], x, 1, y);
      different += std::bit_cast<uint32_t>(want) !=
                   std::bit_cast<uint32_t>(got[static_cast<size_t>(column * ROWS + row)]);
    }
  }
  CHECK(different == 0);
}

template <class T, int ROWS>
void compare_all() {
  Random random;
  const bool wide = std::is_same_v<T, bf16>;
  const uint32_t near = sizeof(T) == 1 ? 0x8f8f8f8fu : wide ? 0x81ff81ffu : 0x8fff8fffu;
  const uint32_t middle = sizeof(T) == 1 ? 0x30303030u : wide ? 0x3e003e00u : 0x30003000u;
  for (int i = 0; i < 200; ++i) {
    compare<T, ROWS>(random, ~0u, 0, ~0u, 0);                        // any bits, NaN and Inf too
    compare<T, ROWS>(random, near, middle, 0x83ffffff, 0x3c000000);  // exponents close together
    compare<T, ROWS>(random, near, middle, 0, 0);                    // no accumulator
    compare<T, ROWS>(random, 0x80ff80ff & near, 0, 0x80ffffff, 0);   // zeros, subnormals
  }
  // Sums of products that exceed 31 bits.
  compare<T, ROWS>(random, 0, wide ? 0x3fff3fff : 0x3f7f3f7f, 0, 0x407fffff);
}

}  // namespace

TEST_CASE("sums that an H100 made, bit for bit") {
  std::ifstream file(FA_ROOT "/docs/measurements/h100/mma_sum_vectors.txt");
  std::map<std::string, int> counts;
  std::string line;
  while (std::getline(file, line)) {
    CAPTURE(line);
    const size_t colon = line.find(": ");
    REQUIRE(colon != std::string::npos);
    const std::string name = line.substr(0, colon), type = name.substr(name.rfind(' ') + 1);
    std::istringstream words(line.substr(colon + 2));
    uint32_t before = 0, after = 0;
    std::string a_hex, b_hex;
    REQUIRE((words >> std::hex >> before >> after >> a_hex >> b_hex));
    const int digits = type == "s8" || type == "e4m3" ? 2 : 4;
    const std::vector<uint32_t> a = codes_of(a_hex, digits), b = codes_of(b_hex, digits);
    uint32_t got = ~after;
    if (type == "bf16") got = sum_of<bf16>(before, a, b);
    if (type == "fp16") got = sum_of<fp16>(before, a, b);
    if (type == "e4m3") got = sum_of<e4m3>(before, a, b);
    if (type == "s8") got = integer_sum(before, a, b);
    CHECK(got == after);
    ++counts[name];
  }
  CHECK(counts.size() == 6);
  for (const auto& [name, count] : counts) CHECK(count >= (name == "mma.m16n8k32 s8" ? 4 : 52));
}

TEST_CASE("many sums at a time are the same as each on its own") {
  compare_all<bf16, 16>();
  compare_all<fp16, 16>();
  compare_all<bf16, 64>();
  compare_all<fp16, 64>();
  compare_all<e4m3, 64>();
}

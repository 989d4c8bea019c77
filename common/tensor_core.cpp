#include "common/tensor_core.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

// The loop over eight sums uses the compiler's vector types, so that it runs on every processor. On
// x86-64 it is compiled twice, because AVX2 halves its time. The choice is made once, at run time.
#if defined(__x86_64__)
#define FA_HAS_AVX2_TWIN
#endif

#pragma GCC diagnostic ignored "-Wpsabi"  // about vectors as parameters

namespace fa {

namespace {

// Vectors of LANES fp32 values, processed in pairs with one vector of exponents. LANES is eight
// with AVX2 and four without.
template <int LANES>
struct Vectors {
  typedef float Floats __attribute__((vector_size(4 * LANES)));
  typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
  typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
  typedef int16_t Shorts __attribute__((vector_size(4 * LANES)));
  typedef int16_t HalfShorts __attribute__((vector_size(2 * LANES)));
  typedef int32_t HalfInts __attribute__((vector_size(2 * LANES)));
  typedef float HalfFloats __attribute__((vector_size(2 * LANES)));
  typedef double Doubles __attribute__((vector_size(4 * LANES)));
  typedef int64_t Longs __attribute__((vector_size(4 * LANES)));
};

template <class To, class From>
[[gnu::always_inline]] inline To load(const From* from) {
  To to;
  std::memcpy(&to, from, sizeof to);
  return to;
}

// Replacements for an exponent. Any exponent plus kZero is below all exponents. Any exponent plus
// kNotFinite, including kZero, is above all.
constexpr int16_t kZero = -3000, kNotFinite = 8000;
// The vector loop is correct if the largest exponent is in this range or all terms are zero. Then
// the quantum to which terms are truncated and its inverse are normal fp32 numbers, products do not
// overflow, and a product that is subnormal in fp32 is smaller than the quantum.
constexpr int kSmallest = -100, kLargest = 126, kAllZero = -1000;

constexpr int kFp32Bits = 23, kFp32Bias = 127, kFp32Min = -126;
constexpr int kMinAlignment = -133;  // rule 2
constexpr uint32_t kTensorCoreNaN = 0x7fffffff;

struct Term {  // significand / 2^23 * 2^exponent
  int64_t significand;
  int exponent;
};
Term split(float x, int min_exponent) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int biased = static_cast<int>(bits >> kFp32Bits & 0xff);
  int64_t significand = bits & ((1u << kFp32Bits) - 1);
  if (biased != 0) significand |= 1 << kFp32Bits;
  int exponent = std::max(biased, 1) - kFp32Bias;
  if (exponent < min_exponent) {
    significand >>= min_exponent - exponent;  // exact, because it is a subnormal number of its type
    exponent = min_exponent;
  }
  return {bits >> 31 != 0 ? -significand : significand, exponent};
}

// Returns the sum by rule 5, if one of the terms is not finite.
float sum_not_finite(float c, const float* a, int64_t a_stride, const float* b, int products) {
  float sum = std::isfinite(c) ? 0 : c;
  for (int k = 0; k < products; ++k) {
    const float x = a[k * a_stride];
    if (!std::isfinite(x) || !std::isfinite(b[k])) sum += x * b[k];
  }
  return std::isnan(sum) ? std::bit_cast<float>(kTensorCoreNaN) : sum;
}

// Computes the exponents of factors from their magnitudes in fp32.
template <class T, int LANES, class V = Vectors<LANES>>
[[gnu::always_inline]] inline void put_exponents(const typename V::Ints& magnitude,
                                                 int16_t* exponents) {
  using Ints = typename V::Ints;
  constexpr int kMin = kSumRule<T>.min_exponent + kFp32Bias;
  const Ints biased = magnitude >> kFp32Bits;
  Ints exponent = (biased < kMin ? Ints{} + kMin : biased) - kFp32Bias;
  exponent = magnitude == 0 ? Ints{} + kZero : exponent;
  exponent = biased == 255 ? Ints{} + kNotFinite : exponent;
  const auto result = __builtin_convertvector(exponent, typename V::HalfShorts);
  std::memcpy(exponents, &result, sizeof result);
}

// Converts numbers of type T from their codes in the high bits of `code` to fp32.
template <class T, int LANES, class V = Vectors<LANES>>
[[gnu::always_inline]] inline typename V::Words to_fp32(const typename V::Words& code) {
  using Words = typename V::Words;
  using Floats = typename V::Floats;
  if constexpr (std::is_same_v<T, bf16>) {
    return code;
  } else if constexpr (std::is_same_v<T, tf32>) {
    return code & 0xffffe000u;
  } else {
    constexpr int kBits = sizeof(T) * 8;
    constexpr int kMantissa = std::is_same_v<T, e4m3> ? 3 : std::is_same_v<T, e5m2> ? 2 : 10;
    constexpr int kExponent = kBits - 1 - kMantissa, kBias = (1 << (kExponent - 1)) - 1;
    const Words magnitude = (code & 0x7fffffffu) >> (32 - kBits - (kFp32Bits - kMantissa));
    const Floats scaled =
        load<Floats>(&magnitude) * std::bit_cast<float>((2 * kFp32Bias - kBias) << kFp32Bits);
    Words result = load<Words>(&scaled);
    if (kExponent == 5) {
      result = (code & 0x7c000000u) == 0x7c000000u ? magnitude | 0x7f800000u : result;
    } else {
      result = (code & 0x7f000000u) == 0x7f000000u ? Words{} + kTensorCoreNaN : result;
    }
    return result | (code & 0x80000000u);
  }
}

// Extracts one factor of each word, and its exponent.
template <class T, int LANES, class V = Vectors<LANES>>
[[gnu::always_inline]] inline void unpack(const typename V::Words& words, int factor,
                                          float* numbers, int16_t* exponents) {
  constexpr int kBits = sizeof(T) * 8;
  const auto number = to_fp32<T, LANES>(words << (32 - (factor + 1) * kBits) & ~0u << (32 - kBits));
  put_exponents<T, LANES>((typename V::Ints)(number & 0x7fffffffu), exponents);
  std::memcpy(numbers, &number, sizeof number);
}

// sums += A b for 2 LANES rows.
template <class T, int LANES, class V = Vectors<LANES>>
[[gnu::always_inline]] inline void add_rows(float* sums, const float* a, const int16_t* a_exponents,
                                            int64_t a_stride, int64_t exponent_stride,
                                            const float* b, const int16_t* b_exponents) {
  using Floats = typename V::Floats;
  using Ints = typename V::Ints;
  using Words = typename V::Words;
  using Shorts = typename V::Shorts;
  using Doubles = typename V::Doubles;
  constexpr SumRule rule = kSumRule<T>;
  Shorts largest = Shorts{} + kZero;
  for (int k = 0; k < rule.products; ++k) {
    const Shorts exponent = load<Shorts>(a_exponents + k * exponent_stride) + b_exponents[k];
    largest = exponent > largest ? exponent : largest;
  }
  int16_t largest_of[2 * LANES];
  std::memcpy(largest_of, &largest, sizeof largest);
  Ints outside[2];
  Floats quantum[2], inverse[2], c[2];
  for (int half = 0; half < 2; ++half) {
    c[half] = load<Floats>(sums + half * LANES);
    const Ints magnitude = load<Ints>(&c[half]) & 0x7fffffff, biased = magnitude >> kFp32Bits;
    Ints c_exponent = (biased == 0 ? Ints{} + 1 : biased) - kFp32Bias;
    c_exponent = magnitude == 0 ? Ints{} + kZero : c_exponent;
    c_exponent = biased == 255 ? Ints{} + kNotFinite : c_exponent;
    Ints exponent =
        __builtin_convertvector(load<typename V::HalfShorts>(largest_of + half * LANES), Ints);
    exponent = c_exponent > exponent ? c_exponent : exponent;
    exponent = exponent < kAllZero ? Ints{} : exponent;
    outside[half] = (exponent < kSmallest) | (exponent > kLargest);
    exponent &= ~outside[half];
    const Ints quantum_bits = (exponent + (kFp32Bias - rule.fraction_bits)) << kFp32Bits;
    const Ints inverse_bits = (kFp32Bias + rule.fraction_bits - exponent) << kFp32Bits;
    quantum[half] = load<Floats>(&quantum_bits);
    inverse[half] = load<Floats>(&inverse_bits);
  }
  // In quanta, truncated toward zero. The sum of the products is below 2^31, but with c it may be
  // larger.
  Words total[2] = {};
  for (int k = 0; k < rule.products; ++k) {
    for (int half = 0; half < 2; ++half) {
      const Floats terms = load<Floats>(a + k * a_stride + half * LANES) * b[k] * inverse[half];
      total[half] += (Words) __builtin_convertvector(terms, Ints);
    }
  }
  float results[2 * LANES];
  for (int half = 0; half < 2; ++half) {
    const Ints c_term = __builtin_convertvector(c[half] * inverse[half], Ints);
    for (int part = 0; part < 2; ++part) {
      const auto doubles = [&](const auto& ints) __attribute__((always_inline)) {
        const auto* const from = reinterpret_cast<const char*>(&ints) + part * 2 * LANES;
        return __builtin_convertvector(load<typename V::HalfInts>(from), Doubles);
      };
      const auto* const unit = reinterpret_cast<const char*>(&quantum[half]) + part * 2 * LANES;
      const Doubles exact = (doubles(total[half]) + doubles(c_term)) *
                            __builtin_convertvector(load<typename V::HalfFloats>(unit), Doubles);
      const auto kept =
          load<typename V::Longs>(&exact) & ~((int64_t{1} << (52 - rule.kept_bits)) - 1);
      const auto cut = __builtin_convertvector(load<Doubles>(&kept), typename V::HalfFloats);
      std::memcpy(results + half * LANES + part * LANES / 2, &cut, sizeof cut);
    }
  }
  const Ints any = outside[0] | outside[1];
  int32_t lanes[LANES], is_outside = 0;
  std::memcpy(lanes, &any, sizeof lanes);
  for (const int32_t lane : lanes) is_outside |= lane;
  if (is_outside != 0) [[unlikely]] {
    for (int i = 0; i < 2 * LANES; ++i)
      if (outside[i / LANES][i % LANES] != 0)
        results[i] = tensor_core_sum<T>(sums[i], a + i, a_stride, b);
  }
  std::memcpy(sums, results, sizeof results);
}

template <class T, int ROWS, int LANES>
[[gnu::always_inline]] inline void multiply(float* sums, int columns, const uint32_t* a,
                                            const uint32_t* b) {
  // The order of k within a sum does not matter, so it takes the first factor of each word, then
  // the second.
  using Words = typename Vectors<LANES>::Words;
  constexpr int kFactors = 4 / sizeof(T), kDepth = kSumRule<T>.products;
  static_assert(kFactors * kWordsAtATime == kDepth);
  alignas(32) float A[kDepth][ROWS], b_numbers[kDepth];
  alignas(32) int16_t A_exponents[kDepth][ROWS], b_exponents[kDepth];
  for (int row = 0; row < ROWS; row += LANES) {
    for (int word = 0; word < kWordsAtATime; ++word) {
      const Words words = load<Words>(a + word * ROWS + row);
      for (int factor = 0; factor < kFactors; ++factor) {
        const int k = factor * kWordsAtATime + word;
        unpack<typename FactorsOf<T>::A, LANES>(words, factor, &A[k][row], &A_exponents[k][row]);
      }
    }
  }
  for (int column = 0; column < columns; ++column) {
    for (int word = 0; word < kWordsAtATime; word += LANES) {
      const Words words = load<Words>(b + column * kWordsAtATime + word);
      for (int factor = 0; factor < kFactors; ++factor) {
        const int k = factor * kWordsAtATime + word;
        unpack<typename FactorsOf<T>::B, LANES>(words, factor, b_numbers + k, b_exponents + k);
      }
    }
    for (int row = 0; row < ROWS; row += 2 * LANES) {
      add_rows<T, LANES>(sums + column * ROWS + row, &A[0][row], &A_exponents[0][row], ROWS, ROWS,
                         b_numbers, b_exponents);
    }
  }
}

template <class T, int LANES>
[[gnu::always_inline]] inline void add(float* sums, int rows, const float* a, int64_t a_stride,
                                       const float* b) {
  using Ints = typename Vectors<LANES>::Ints;
  constexpr int kDepth = kSumRule<T>.products, kRows = 2 * LANES;
  alignas(32) int16_t a_exponents[kDepth][kRows], b_exponents[kDepth];
  for (int k = 0; k < kDepth; k += LANES)
    put_exponents<typename FactorsOf<T>::B, LANES>(load<Ints>(b + k) & 0x7fffffff, b_exponents + k);
  int row = 0;
  for (; row + kRows <= rows; row += kRows) {
    for (int k = 0; k < kDepth; ++k) {
      for (int i = 0; i < kRows; i += LANES) {
        put_exponents<typename FactorsOf<T>::A, LANES>(
            load<Ints>(a + k * a_stride + row + i) & 0x7fffffff, &a_exponents[k][i]);
      }
    }
    add_rows<T, LANES>(sums + row, a + row, a_exponents[0], a_stride, kRows, b, b_exponents);
  }
  for (; row < rows; ++row) sums[row] = tensor_core_sum<T>(sums[row], a + row, a_stride, b);
}

#ifdef FA_HAS_AVX2_TWIN
template <class T, int ROWS>
[[gnu::target("avx2")]] void multiply_avx2(float* sums, int columns, const uint32_t* a,
                                           const uint32_t* b) {
  multiply<T, ROWS, 8>(sums, columns, a, b);
}
template <class T>
[[gnu::target("avx2")]] void add_avx2(float* sums, int rows, const float* a, int64_t a_stride,
                                      const float* b) {
  add<T, 8>(sums, rows, a, a_stride, b);
}
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif

}  // namespace

template <class T>
float tensor_core_sum(float c, const float* a, int64_t a_stride, const float* b) {
  constexpr SumRule rule = kSumRule<T>;
  bool finite = std::isfinite(c);
  for (int k = 0; k < rule.products; ++k)
    finite = finite && std::isfinite(a[k * a_stride]) && std::isfinite(b[k]);
  if (!finite) return sum_not_finite(c, a, a_stride, b, rule.products);

  Term terms[rule.products + 1];  // significands with 46 bits below the binary point
  terms[0] = split(c, kFp32Min);
  terms[0].significand *= 1 << kFp32Bits;
  int largest = kAllZero;
  for (int k = 0; k <= rule.products; ++k) {
    if (k > 0) {
      const Term x = split(a[(k - 1) * a_stride], kSumRule<typename FactorsOf<T>::A>.min_exponent);
      const Term y = split(b[k - 1], kSumRule<typename FactorsOf<T>::B>.min_exponent);
      terms[k] = {x.significand * y.significand, x.exponent + y.exponent};
    }
    if (terms[k].significand != 0) largest = std::max(largest, terms[k].exponent);
  }
  largest = std::max(largest, kMinAlignment);
  int64_t sum = 0;  // in quanta of 2^(largest - fraction_bits)
  for (const Term& term : terms) {
    const int cut = std::min(63, 2 * kFp32Bits - rule.fraction_bits + largest - term.exponent);
    if (term.significand > 0) sum += term.significand >> cut;
    if (term.significand < 0) sum -= -term.significand >> cut;
  }
  if (sum == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(std::abs(sum));
  const int quantum = largest - rule.fraction_bits;
  const int exponent = quantum + std::bit_width(magnitude) - 1;
  const int last = std::max(exponent, kFp32Min) - rule.kept_bits;  // exponent of the last kept bit
  const int lost = std::clamp(last - quantum, 0, 63);
  const double value = std::ldexp(static_cast<double>(magnitude >> lost << lost), quantum);
  return static_cast<float>(sum < 0 ? -value : value);
}

template <class T, int ROWS>
void tensor_core_multiply(float* sums, int columns, const uint32_t* a, const uint32_t* b) {
#ifdef FA_HAS_AVX2_TWIN
  if (has_avx2()) return multiply_avx2<T, ROWS>(sums, columns, a, b);
#endif
  multiply<T, ROWS, 4>(sums, columns, a, b);
}

template <class T>
void tensor_core_add(float* sums, int rows, const float* a, int64_t a_stride, const float* b) {
#ifdef FA_HAS_AVX2_TWIN
  if (has_avx2()) return add_avx2<T>(sums, rows, a, a_stride, b);
#endif
  add<T, 4>(sums, rows, a, a_stride, b);
}

#define FA_INSTANTIATE(T)                                                             \
  template float tensor_core_sum<T>(float, const float*, int64_t, const float*);      \
  template void tensor_core_add<T>(float*, int, const float*, int64_t, const float*); \
  template void tensor_core_multiply<T, 64>(float*, int, const uint32_t*, const uint32_t*);
FA_INSTANTIATE(bf16)
FA_INSTANTIATE(fp16)
FA_INSTANTIATE(e4m3)
FA_INSTANTIATE(tf32)
FA_INSTANTIATE(e5m2)
#undef FA_INSTANTIATE
template void tensor_core_multiply<bf16, 16>(float*, int, const uint32_t*, const uint32_t*);
template void tensor_core_multiply<fp16, 16>(float*, int, const uint32_t*, const uint32_t*);
template void tensor_core_multiply<e4m3, 16>(float*, int, const uint32_t*, const uint32_t*);
template void tensor_core_multiply<tf32, 16>(float*, int, const uint32_t*, const uint32_t*);
template void tensor_core_multiply<e5m2, 16>(float*, int, const uint32_t*, const uint32_t*);
template void tensor_core_multiply<Mixed<e4m3, e5m2>, 16>(float*, int, const uint32_t*,
                                                          const uint32_t*);
template void tensor_core_multiply<Mixed<e5m2, e4m3>, 16>(float*, int, const uint32_t*,
                                                          const uint32_t*);

}  // namespace fa

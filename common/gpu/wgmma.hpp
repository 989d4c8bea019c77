#pragma once
// wgmma on the GPU. PTX names every register of the accumulator, so there is a separate instruction
// for each n, which the table at the end generates. common/simt/hopper.hpp documents the functions.

#include <cstdint>
#include <type_traits>

#include "common/fp8.hpp"

// Source position of a call, which only the emulator uses.
#define FA_SITE int = 0, const char* = nullptr

namespace gpu {

enum class Major { k, mn };  // which elements of an operand are neighbours in shared memory

FA_DEVICE void wgmma_fence(FA_SITE) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FA_DEVICE void wgmma_commit(FA_SITE) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N>
FA_DEVICE void wgmma_wait(FA_SITE) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// Makes each register count as written after the wait. Without it the compiler sees no dependence
// between the registers and the wait, so it could read them before.
template <int N8>
FA_DEVICE void written_by_wgmma(float (&registers)[N8][4]) {
  FA_UNROLL
  for (int j = 0; j < N8; ++j)
    asm volatile(""
                 : "+f"(registers[j][0]), "+f"(registers[j][1]), "+f"(registers[j][2]),
                   "+f"(registers[j][3])::"memory");
}
template <int N, int N8>
FA_DEVICE void wgmma_wait(float (&a)[N8][4], FA_SITE) {
  wgmma_wait<N>();
  written_by_wgmma(a);
}
template <int N, int A8, int B8>
FA_DEVICE void wgmma_wait(float (&a)[A8][4], float (&b)[B8][4], FA_SITE) {
  wgmma_wait<N>();
  written_by_wgmma(a);
  written_by_wgmma(b);
}

// PTX names of the accumulator's registers as operands, four per 8 columns.
#define FA_D1 "%0,%1,%2,%3"
#define FA_D2 FA_D1 ",%4,%5,%6,%7"
#define FA_D3 FA_D2 ",%8,%9,%10,%11"
#define FA_D4 FA_D3 ",%12,%13,%14,%15"
#define FA_D5 FA_D4 ",%16,%17,%18,%19"
#define FA_D6 FA_D5 ",%20,%21,%22,%23"
#define FA_D7 FA_D6 ",%24,%25,%26,%27"
#define FA_D8 FA_D7 ",%28,%29,%30,%31"
#define FA_D9 FA_D8 ",%32,%33,%34,%35"
#define FA_D10 FA_D9 ",%36,%37,%38,%39"
#define FA_D11 FA_D10 ",%40,%41,%42,%43"
#define FA_D12 FA_D11 ",%44,%45,%46,%47"
#define FA_D13 FA_D12 ",%48,%49,%50,%51"
#define FA_D14 FA_D13 ",%52,%53,%54,%55"
#define FA_D15 FA_D14 ",%56,%57,%58,%59"
#define FA_D16 FA_D15 ",%60,%61,%62,%63"
#define FA_D17 FA_D16 ",%64,%65,%66,%67"
#define FA_D18 FA_D17 ",%68,%69,%70,%71"
#define FA_D19 FA_D18 ",%72,%73,%74,%75"
#define FA_D20 FA_D19 ",%76,%77,%78,%79"
#define FA_D21 FA_D20 ",%80,%81,%82,%83"
#define FA_D22 FA_D21 ",%84,%85,%86,%87"
#define FA_D23 FA_D22 ",%88,%89,%90,%91"
#define FA_D24 FA_D23 ",%92,%93,%94,%95"
#define FA_D25 FA_D24 ",%96,%97,%98,%99"
#define FA_D26 FA_D25 ",%100,%101,%102,%103"
#define FA_D27 FA_D26 ",%104,%105,%106,%107"
#define FA_D28 FA_D27 ",%108,%109,%110,%111"
#define FA_D29 FA_D28 ",%112,%113,%114,%115"
#define FA_D30 FA_D29 ",%116,%117,%118,%119"
#define FA_D31 FA_D30 ",%120,%121,%122,%123"
#define FA_D32 FA_D31 ",%124,%125,%126,%127"
#define FA_F(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define FA_O1 FA_F(0)
#define FA_O2 FA_O1, FA_F(1)
#define FA_O3 FA_O2, FA_F(2)
#define FA_O4 FA_O3, FA_F(3)
#define FA_O5 FA_O4, FA_F(4)
#define FA_O6 FA_O5, FA_F(5)
#define FA_O7 FA_O6, FA_F(6)
#define FA_O8 FA_O7, FA_F(7)
#define FA_O9 FA_O8, FA_F(8)
#define FA_O10 FA_O9, FA_F(9)
#define FA_O11 FA_O10, FA_F(10)
#define FA_O12 FA_O11, FA_F(11)
#define FA_O13 FA_O12, FA_F(12)
#define FA_O14 FA_O13, FA_F(13)
#define FA_O15 FA_O14, FA_F(14)
#define FA_O16 FA_O15, FA_F(15)
#define FA_O17 FA_O16, FA_F(16)
#define FA_O18 FA_O17, FA_F(17)
#define FA_O19 FA_O18, FA_F(18)
#define FA_O20 FA_O19, FA_F(19)
#define FA_O21 FA_O20, FA_F(20)
#define FA_O22 FA_O21, FA_F(21)
#define FA_O23 FA_O22, FA_F(22)
#define FA_O24 FA_O23, FA_F(23)
#define FA_O25 FA_O24, FA_F(24)
#define FA_O26 FA_O25, FA_F(25)
#define FA_O27 FA_O26, FA_F(26)
#define FA_O28 FA_O27, FA_F(27)
#define FA_O29 FA_O28, FA_F(28)
#define FA_O30 FA_O29, FA_F(29)
#define FA_O31 FA_O30, FA_F(30)
#define FA_O32 FA_O31, FA_F(31)

// n; columns / 8; then the numbers of the operands after the accumulator: A's descriptor, B's,
// scale-d.
#define FA_WGMMA_SHARED(n, n8, a, b, s)                                                      \
  if constexpr (N8 == n8) {                                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #s                                     \
                 ", 0;\n"                                                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #n FA_TYPES " {" FA_D##n8               \
                 "}, %" #a ", %" #b ", p, 1, 1" FA_MAJORS ";\n}"                             \
                 : FA_O##n8                                                                  \
                 : "l"(descriptor_a), "l"(descriptor_b), "r"(static_cast<int>(accumulate))); \
  }
// The same with A in four registers.
#define FA_WGMMA_REGISTERS(n, n8, a0, a1, a2, a3, b, s)                                        \
  if constexpr (N8 == n8) {                                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #s                                       \
                 ", 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #n FA_TYPES " {" FA_D##n8                 \
                 "}, {%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b ", p, 1, 1" FA_MAJORS ";\n}" \
                 : FA_O##n8                                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor_b),              \
                   "r"(static_cast<int>(accumulate)));                                         \
  }

#define FA_EVERY_N_SHARED                 \
  FA_WGMMA_SHARED(8, 1, 4, 5, 6)          \
  FA_WGMMA_SHARED(16, 2, 8, 9, 10)        \
  FA_WGMMA_SHARED(24, 3, 12, 13, 14)      \
  FA_WGMMA_SHARED(32, 4, 16, 17, 18)      \
  FA_WGMMA_SHARED(40, 5, 20, 21, 22)      \
  FA_WGMMA_SHARED(48, 6, 24, 25, 26)      \
  FA_WGMMA_SHARED(56, 7, 28, 29, 30)      \
  FA_WGMMA_SHARED(64, 8, 32, 33, 34)      \
  FA_WGMMA_SHARED(72, 9, 36, 37, 38)      \
  FA_WGMMA_SHARED(80, 10, 40, 41, 42)     \
  FA_WGMMA_SHARED(88, 11, 44, 45, 46)     \
  FA_WGMMA_SHARED(96, 12, 48, 49, 50)     \
  FA_WGMMA_SHARED(104, 13, 52, 53, 54)    \
  FA_WGMMA_SHARED(112, 14, 56, 57, 58)    \
  FA_WGMMA_SHARED(120, 15, 60, 61, 62)    \
  FA_WGMMA_SHARED(128, 16, 64, 65, 66)    \
  FA_WGMMA_SHARED(136, 17, 68, 69, 70)    \
  FA_WGMMA_SHARED(144, 18, 72, 73, 74)    \
  FA_WGMMA_SHARED(152, 19, 76, 77, 78)    \
  FA_WGMMA_SHARED(160, 20, 80, 81, 82)    \
  FA_WGMMA_SHARED(168, 21, 84, 85, 86)    \
  FA_WGMMA_SHARED(176, 22, 88, 89, 90)    \
  FA_WGMMA_SHARED(184, 23, 92, 93, 94)    \
  FA_WGMMA_SHARED(192, 24, 96, 97, 98)    \
  FA_WGMMA_SHARED(200, 25, 100, 101, 102) \
  FA_WGMMA_SHARED(208, 26, 104, 105, 106) \
  FA_WGMMA_SHARED(216, 27, 108, 109, 110) \
  FA_WGMMA_SHARED(224, 28, 112, 113, 114) \
  FA_WGMMA_SHARED(232, 29, 116, 117, 118) \
  FA_WGMMA_SHARED(240, 30, 120, 121, 122) \
  FA_WGMMA_SHARED(248, 31, 124, 125, 126) \
  FA_WGMMA_SHARED(256, 32, 128, 129, 130)
#define FA_EVERY_N_REGISTERS                                \
  FA_WGMMA_REGISTERS(8, 1, 4, 5, 6, 7, 8, 9)                \
  FA_WGMMA_REGISTERS(16, 2, 8, 9, 10, 11, 12, 13)           \
  FA_WGMMA_REGISTERS(24, 3, 12, 13, 14, 15, 16, 17)         \
  FA_WGMMA_REGISTERS(32, 4, 16, 17, 18, 19, 20, 21)         \
  FA_WGMMA_REGISTERS(40, 5, 20, 21, 22, 23, 24, 25)         \
  FA_WGMMA_REGISTERS(48, 6, 24, 25, 26, 27, 28, 29)         \
  FA_WGMMA_REGISTERS(56, 7, 28, 29, 30, 31, 32, 33)         \
  FA_WGMMA_REGISTERS(64, 8, 32, 33, 34, 35, 36, 37)         \
  FA_WGMMA_REGISTERS(72, 9, 36, 37, 38, 39, 40, 41)         \
  FA_WGMMA_REGISTERS(80, 10, 40, 41, 42, 43, 44, 45)        \
  FA_WGMMA_REGISTERS(88, 11, 44, 45, 46, 47, 48, 49)        \
  FA_WGMMA_REGISTERS(96, 12, 48, 49, 50, 51, 52, 53)        \
  FA_WGMMA_REGISTERS(104, 13, 52, 53, 54, 55, 56, 57)       \
  FA_WGMMA_REGISTERS(112, 14, 56, 57, 58, 59, 60, 61)       \
  FA_WGMMA_REGISTERS(120, 15, 60, 61, 62, 63, 64, 65)       \
  FA_WGMMA_REGISTERS(128, 16, 64, 65, 66, 67, 68, 69)       \
  FA_WGMMA_REGISTERS(136, 17, 68, 69, 70, 71, 72, 73)       \
  FA_WGMMA_REGISTERS(144, 18, 72, 73, 74, 75, 76, 77)       \
  FA_WGMMA_REGISTERS(152, 19, 76, 77, 78, 79, 80, 81)       \
  FA_WGMMA_REGISTERS(160, 20, 80, 81, 82, 83, 84, 85)       \
  FA_WGMMA_REGISTERS(168, 21, 84, 85, 86, 87, 88, 89)       \
  FA_WGMMA_REGISTERS(176, 22, 88, 89, 90, 91, 92, 93)       \
  FA_WGMMA_REGISTERS(184, 23, 92, 93, 94, 95, 96, 97)       \
  FA_WGMMA_REGISTERS(192, 24, 96, 97, 98, 99, 100, 101)     \
  FA_WGMMA_REGISTERS(200, 25, 100, 101, 102, 103, 104, 105) \
  FA_WGMMA_REGISTERS(208, 26, 104, 105, 106, 107, 108, 109) \
  FA_WGMMA_REGISTERS(216, 27, 108, 109, 110, 111, 112, 113) \
  FA_WGMMA_REGISTERS(224, 28, 112, 113, 114, 115, 116, 117) \
  FA_WGMMA_REGISTERS(232, 29, 116, 117, 118, 119, 120, 121) \
  FA_WGMMA_REGISTERS(240, 30, 120, 121, 122, 123, 124, 125) \
  FA_WGMMA_REGISTERS(248, 31, 124, 125, 126, 127, 128, 129) \
  FA_WGMMA_REGISTERS(256, 32, 128, 129, 130, 131, 132, 133)

template <class T, Major MAJOR_A, Major MAJOR_B>
struct WgmmaOf;

#define FA_TYPES "k16.f32.bf16.bf16"
#define FA_MAJORS ", 0, 0"
template <>
struct WgmmaOf<fa::bf16, Major::k, Major::k> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
#undef FA_MAJORS
#define FA_MAJORS ", 0"
  template <int N8>
  FA_DEVICE static void registers(float (&d)[N8][4], const uint32_t (&a)[4], uint64_t descriptor_b,
                                  bool accumulate) {
    FA_EVERY_N_REGISTERS
  }
};
#undef FA_TYPES
#undef FA_MAJORS

#define FA_TYPES "k16.f32.bf16.bf16"
#define FA_MAJORS ", 0, 1"
template <>
struct WgmmaOf<fa::bf16, Major::k, Major::mn> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
#undef FA_MAJORS
#define FA_MAJORS ", 1"
  template <int N8>
  FA_DEVICE static void registers(float (&d)[N8][4], const uint32_t (&a)[4], uint64_t descriptor_b,
                                  bool accumulate) {
    FA_EVERY_N_REGISTERS
  }
};
#undef FA_TYPES
#undef FA_MAJORS

#define FA_TYPES "k16.f32.bf16.bf16"
#define FA_MAJORS ", 1, 0"
template <>
struct WgmmaOf<fa::bf16, Major::mn, Major::k> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
};
#undef FA_TYPES
#undef FA_MAJORS

#define FA_TYPES "k16.f32.bf16.bf16"
#define FA_MAJORS ", 1, 1"
template <>
struct WgmmaOf<fa::bf16, Major::mn, Major::mn> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
};
#undef FA_TYPES
#undef FA_MAJORS

#define FA_TYPES "k16.f32.f16.f16"
#define FA_MAJORS ", 0, 0"
template <>
struct WgmmaOf<fa::fp16, Major::k, Major::k> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
#undef FA_MAJORS
#define FA_MAJORS ", 0"
  template <int N8>
  FA_DEVICE static void registers(float (&d)[N8][4], const uint32_t (&a)[4], uint64_t descriptor_b,
                                  bool accumulate) {
    FA_EVERY_N_REGISTERS
  }
};
#undef FA_TYPES
#undef FA_MAJORS

#define FA_TYPES "k16.f32.f16.f16"
#define FA_MAJORS ", 0, 1"
template <>
struct WgmmaOf<fa::fp16, Major::k, Major::mn> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
#undef FA_MAJORS
#define FA_MAJORS ", 1"
  template <int N8>
  FA_DEVICE static void registers(float (&d)[N8][4], const uint32_t (&a)[4], uint64_t descriptor_b,
                                  bool accumulate) {
    FA_EVERY_N_REGISTERS
  }
};
#undef FA_TYPES
#undef FA_MAJORS

#define FA_TYPES "k16.f32.f16.f16"
#define FA_MAJORS ", 1, 0"
template <>
struct WgmmaOf<fa::fp16, Major::mn, Major::k> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
};
#undef FA_TYPES
#undef FA_MAJORS

#define FA_TYPES "k16.f32.f16.f16"
#define FA_MAJORS ", 1, 1"
template <>
struct WgmmaOf<fa::fp16, Major::mn, Major::mn> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
};
#undef FA_TYPES
#undef FA_MAJORS

// 8-bit types have 32 elements per k-step and are always K-major.
#define FA_TYPES "k32.f32.e4m3.e4m3"
#define FA_MAJORS ""
template <>
struct WgmmaOf<fa::e4m3, Major::k, Major::k> {
  template <int N8>
  FA_DEVICE static void shared(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                               bool accumulate) {
    FA_EVERY_N_SHARED
  }
  template <int N8>
  FA_DEVICE static void registers(float (&d)[N8][4], const uint32_t (&a)[4], uint64_t descriptor_b,
                                  bool accumulate) {
    FA_EVERY_N_REGISTERS
  }
};
#undef FA_TYPES
#undef FA_MAJORS

template <class T, Major MAJOR_A = Major::k, Major MAJOR_B = Major::k, int N8>
FA_DEVICE void wgmma(float (&d)[N8][4], uint64_t descriptor_a, uint64_t descriptor_b,
                     bool accumulate, FA_SITE) {
  static_assert(N8 >= 1 && N8 <= 32, "n is 8 to 256");
  WgmmaOf<T, MAJOR_A, MAJOR_B>::shared(d, descriptor_a, descriptor_b, accumulate);
}
template <class T, Major MAJOR_B = Major::k, int N8>
FA_DEVICE void wgmma(float (&d)[N8][4], uint32_t (&a)[4], uint64_t descriptor_b, bool accumulate,
                     FA_SITE) {
  static_assert(N8 >= 1 && N8 <= 32, "n is 8 to 256");
  WgmmaOf<T, Major::k, MAJOR_B>::registers(d, a, descriptor_b, accumulate);
}

}  // namespace gpu

#undef FA_F
#undef FA_WGMMA_SHARED
#undef FA_WGMMA_REGISTERS
#undef FA_EVERY_N_SHARED
#undef FA_EVERY_N_REGISTERS
#undef FA_SITE

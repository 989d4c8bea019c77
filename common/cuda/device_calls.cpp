// The functions that the device code of a CUDA file calls after emucuda_retarget. Each is an
// instruction, or several, of the emulator. The last two parameters are the place in the user's
// source.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "common/cuda/runtime.hpp"
#include "common/cuda/window.hpp"
#include "common/simt/begin.hpp"
#include "common/simt/block.hpp"
#include "common/simt/device.hpp"
#include "common/simt/lanes.hpp"
#include "common/tensor_core.hpp"

namespace emucuda {

namespace {

using emulator::lanes::AtomicTarget;
using fa::simt::Block;
using fa::simt::current_thread;
using fa::simt::kRankShift;
using fa::simt::Site;
using fa::simt::Thread;
static_assert(kFirstSharedAddress == fa::simt::kSharedBase);

bool is_shared(const void* p) { return number(p) - kSharedWindow < kWindowBytes; }
uint32_t shared_address(const void* p) { return static_cast<uint32_t>(number(p) - kSharedWindow); }

// In shared memory that other blocks of the cluster access, too.
bool is_in_cluster(const void* p) {
  return is_shared(p) && !(current_thread().block->launch().config.cluster == fa::Dim3{});
}

// On the running thread's own stack, above this frame.
bool is_local(const void* p) {
  const Thread& thread = current_thread();
  return thread.block->stacks().holds(thread.index, p);
}

// Memory that has not been written has all bits set (runtime.cpp).
bool all_ones(const void* value, size_t bytes) {
  const auto* const byte = static_cast<const unsigned char*>(value);
  return std::all_of(byte, byte + bytes, [](unsigned char b) { return b == 0xff; });
}
// Before a store of `value` to global memory.
void note_store(const void* p, const void* value, size_t bytes) {
  if (std::memchr(value, 0xff, bytes) != nullptr) note_written(p, bytes, value);
}
void report_uninitialized(const void* p, const Site& site) {
  Thread& thread = current_thread();
  thread.block->report(fa::simt::HazardKind::kUninitializedRead, thread, site, number(p), [&] {
    return "reads " + fa::simt::describe_address(p) +
           ", which no copy, memset or kernel has written";
  });
}
// After a load of `value` from global memory.
void check_initialized(const void* p, const void* value, size_t bytes, const Site& site) {
  if (all_ones(value, bytes) && is_uninitialized(p, bytes)) report_uninitialized(p, site);
}

void load(const void* p, void* value, size_t bytes, int line, const char* file) {
  if (is_shared(p)) {
    const uint32_t at = shared_address(p);
    if (at >> kRankShift != 0) [[unlikely]]
      return emulator::lanes::load_cluster(at, value, bytes, {file, line});
    return emulator::detail::load_shared(value, at, bytes, line, file);
  }
  if (is_local(p) || is_constant(p, bytes)) {
    std::memcpy(value, p, bytes);
    return;
  }
  emulator::detail::load_global(value, p, bytes, line, file);
  check_initialized(p, value, bytes, {file, line});
}

void store(void* p, const void* value, size_t bytes, int line, const char* file) {
  if (is_shared(p)) {
    const uint32_t at = shared_address(p);
    if (at >> kRankShift != 0) [[unlikely]]
      return emulator::lanes::store_cluster(at, value, bytes, {file, line});
    return emulator::detail::store_shared(at, value, bytes, line, file);
  }
  if (is_local(p)) {
    std::memcpy(p, value, bytes);
    return;
  }
  note_store(p, value, bytes);
  emulator::detail::store_global(p, value, bytes, line, file);
}

template <class F>
void in_pieces(size_t bytes, size_t align, F f) {
  size_t piece = std::min<size_t>({std::bit_floor(bytes), align, 16});
  for (size_t at = 0; at < bytes; at += piece) {
    while (piece > bytes - at) piece /= 2;
    f(at, piece);
  }
}

using Update = void (*)(const void* old, const void* operand, const void* compare, void* fresh);

void atomic(void* p, const void* operand, const void* compare, void* old, size_t bytes, int order,
            Update f, const Site& site) {
  if (is_local(p)) {
    std::memcpy(old, p, bytes);
    return f(old, operand, compare, p);
  }
  AtomicTarget target;
  if (is_shared(p)) {
    target.shared = shared_address(p);
  } else {
    target.global = p;
  }
  bool uninitialized = false;
  emulator::lanes::update(
      target, bytes, old, order,
      [&](const void* before, void* fresh) {
        f(before, operand, compare, fresh);
        if (target.global == nullptr) return;
        uninitialized = all_ones(before, bytes) && is_uninitialized(p, bytes);
        note_store(p, fresh, bytes);
      },
      site);
  if (uninitialized) report_uninitialized(p, site);
}

template <class T, class F>
void apply(const void* old, const void* operand, void* fresh, F f) {
  T a, b;
  std::memcpy(&a, old, sizeof a);
  std::memcpy(&b, operand, sizeof b);
  const T result = f(a, b);
  std::memcpy(fresh, &result, sizeof result);
}

template <class F>
void atomic_integer(void* p, const void* operand, void* old, int bytes, int order, bool is_signed,
                    const Site& site, F) {
  Update update = nullptr;
// NOLINTBEGIN(bugprone-macro-parentheses): T and U are types
#define EMUCUDA_CASE(size, T, U)                                                                \
  if (bytes == size) {                                                                          \
    update = is_signed                                                                          \
                 ? Update([](const void* a, const void* b, const void*, void* fresh) {          \
                     apply<T>(a, b, fresh, [](T x, T y) { return static_cast<T>(F{}(x, y)); }); \
                   })                                                                           \
                 : Update([](const void* a, const void* b, const void*, void* fresh) {          \
                     apply<U>(a, b, fresh, [](U x, U y) { return static_cast<U>(F{}(x, y)); }); \
                   });                                                                          \
  }
  EMUCUDA_CASE(1, int8_t, uint8_t)
  EMUCUDA_CASE(2, int16_t, uint16_t)
  EMUCUDA_CASE(4, int32_t, uint32_t)
  EMUCUDA_CASE(8, int64_t, uint64_t)
#undef EMUCUDA_CASE
  // NOLINTEND(bugprone-macro-parentheses)
  atomic(p, operand, nullptr, old, static_cast<size_t>(bytes), order, update, site);
}

template <class F>
void atomic_float(void* p, const void* operand, void* old, int bytes, int order, const Site& site,
                  F) {
  const Update update = bytes == 4 ? Update([](const void* a, const void* b, const void*,
                                               void* fresh) { apply<float>(a, b, fresh, F{}); })
                                   : Update([](const void* a, const void* b, const void*,
                                               void* fresh) { apply<double>(a, b, fresh, F{}); });
  if (bytes != 4 && bytes != 8) throw std::runtime_error("atomic operation on a float of 16 bits");
  atomic(p, operand, nullptr, old, static_cast<size_t>(bytes), order | emulator::lanes::kLoop,
         update, site);
}

// Adds one number of 16 bits, or the two of a word, each rounded to nearest even.
template <class T, int COUNT>
void add_16bit(const void* old, const void* operand, const void*, void* fresh) {
  T a[COUNT], b[COUNT];
  std::memcpy(a, old, sizeof a);
  std::memcpy(b, operand, sizeof b);
  for (int i = 0; i < COUNT; ++i) a[i] = fa::from_float<T>(fa::to_float(a[i]) + fa::to_float(b[i]));
  std::memcpy(fresh, a, sizeof a);
}

// Formats as device printf does. `arguments` are packed, each aligned to its size.
std::string format(const char* text, const char* arguments) {
  std::string out;
  size_t at = 0;
  const auto take = [&](size_t bytes) {
    at = (at + bytes - 1) / bytes * bytes;
    const char* p = arguments + at;
    at += bytes;
    return p;
  };
  for (const char* p = text; *p != 0; ++p) {
    if (*p != '%') {
      out += *p;
      continue;
    }
    if (p[1] == '%') {
      out += *p++;
      continue;
    }
    std::string spec = "%";
    size_t wide = 4;  // size of an integer
    for (++p; *p != 0 && std::strchr("diouxXeEfFgGaAcsp", *p) == nullptr; ++p) {
      if (*p == 'l') {
        wide = p[-1] == 'l' ? 8 : sizeof(long);
      } else if (*p == 'z' || *p == 't') {
        wide = sizeof(size_t);
      } else if (*p == 'j') {
        wide = 8;
      } else if (*p == '*') {
        int width;
        std::memcpy(&width, take(4), 4);
        spec += std::to_string(width);
      } else if (*p != 'h') {
        spec += *p;
      }
    }
    if (*p == 0) break;
    char buffer[512];
    if (std::strchr("eEfFgGaA", *p) != nullptr) {
      double value;
      std::memcpy(&value, take(8), 8);
      std::snprintf(buffer, sizeof buffer, (spec + *p).c_str(), value);
    } else if (*p == 's') {
      const char* value;
      std::memcpy(&value, take(sizeof value), sizeof value);
      std::snprintf(buffer, sizeof buffer, (spec + *p).c_str(), value);
    } else if (*p == 'p') {
      void* value;
      std::memcpy(&value, take(sizeof value), sizeof value);
      std::snprintf(buffer, sizeof buffer, (spec + *p).c_str(), value);
    } else if (wide == 8) {
      long long value;
      std::memcpy(&value, take(8), 8);
      std::snprintf(buffer, sizeof buffer, (spec + "ll" + *p).c_str(), value);
    } else {
      int value;
      std::memcpy(&value, take(4), 4);
      std::snprintf(buffer, sizeof buffer, (spec + *p).c_str(), value);
    }
    out += buffer;
  }
  return out;
}

}  // namespace

}  // namespace emucuda

using namespace emucuda;
namespace lanes = emulator::lanes;

#define PLACE int line, const char *file
#define SITE (Site{file, line})

extern "C" {

// ---- memory ----

void emucuda_load(const void* p, void* value, int bytes, int align, PLACE) {
  const auto size = static_cast<size_t>(bytes);
  if (align >= bytes && (size & (size - 1)) == 0 && size <= 16)
    return load(p, value, size, line, file);
  in_pieces(size, static_cast<size_t>(align), [&](size_t at, size_t piece) {
    load(static_cast<const char*>(p) + at, static_cast<char*>(value) + at, piece, line, file);
  });
}
void emucuda_store(void* p, const void* value, int bytes, int align, PLACE) {
  const auto size = static_cast<size_t>(bytes);
  if (align >= bytes && (size & (size - 1)) == 0 && size <= 16)
    return store(p, value, size, line, file);
  in_pieces(size, static_cast<size_t>(align), [&](size_t at, size_t piece) {
    store(static_cast<char*>(p) + at, static_cast<const char*>(value) + at, piece, line, file);
  });
}
void emucuda_load_atomic(const void* p, void* value, int bytes, int align, int acquire, PLACE) {
  if (is_in_cluster(p)) {  // as an atomic operation that changes nothing
    const auto same = [&](const void* old, void* fresh) {
      std::memcpy(fresh, old, static_cast<size_t>(bytes));
    };
    return lanes::update({nullptr, shared_address(p)}, static_cast<size_t>(bytes), value,
                         acquire ? lanes::kAcquire : 0, same, SITE);
  }
  if (is_shared(p) || is_local(p) || align < bytes)
    return emucuda_load(p, value, bytes, align, line, file);
  lanes::load(p, value, static_cast<size_t>(bytes), acquire ? lanes::kAcquire : 0, SITE);
  check_initialized(p, value, static_cast<size_t>(bytes), SITE);
}
void emucuda_store_atomic(void* p, const void* value, int bytes, int align, int release, PLACE) {
  if (is_in_cluster(p)) {
    char old[16];
    const auto put = [&](const void*, void* fresh) {
      std::memcpy(fresh, value, static_cast<size_t>(bytes));
    };
    return lanes::update({nullptr, shared_address(p)}, static_cast<size_t>(bytes), old,
                         release ? lanes::kRelease : 0, put, SITE);
  }
  if (is_shared(p) || is_local(p) || align < bytes)
    return emucuda_store(p, value, bytes, align, line, file);
  note_store(p, value, static_cast<size_t>(bytes));
  lanes::store(p, value, static_cast<size_t>(bytes), release ? lanes::kRelease : 0, SITE);
}
void emucuda_memcpy(void* to, const void* from, int64_t bytes, int to_align, int from_align,
                    PLACE) {
  char piece_of[16];
  in_pieces(static_cast<size_t>(bytes), static_cast<size_t>(std::min(to_align, from_align)),
            [&](size_t at, size_t piece) {
              load(static_cast<const char*>(from) + at, piece_of, piece, line, file);
              store(static_cast<char*>(to) + at, piece_of, piece, line, file);
            });
}
void emucuda_memset(void* to, int value, int64_t bytes, int align, PLACE) {
  char piece_of[16];
  std::memset(piece_of, value, sizeof piece_of);
  in_pieces(static_cast<size_t>(bytes), static_cast<size_t>(align), [&](size_t at, size_t piece) {
    store(static_cast<char*>(to) + at, piece_of, piece, line, file);
  });
}
uint64_t emucuda_dynamic_shared() {
  return kSharedWindow + kFirstSharedAddress + running_static_bytes();
}

#define EMUCUDA_INTEGER(name, is_signed, expression)                                          \
  void emucuda_atomic_##name(void* p, const void* operand, const void*, void* old, int bytes, \
                             int order, PLACE) {                                              \
    atomic_integer(p, operand, old, bytes, order, is_signed, SITE,                            \
                   []([[maybe_unused]] auto a, auto b) { return expression; });               \
  }
#define EMUCUDA_FLOAT(name, expression)                                                           \
  void emucuda_atomic_##name(void* p, const void* operand, const void*, void* old, int bytes,     \
                             int order, PLACE) {                                                  \
    atomic_float(p, operand, old, bytes, order, SITE, [](auto a, auto b) { return expression; }); \
  }
#define EMUCUDA_16BIT(name, T)                                                                \
  void emucuda_atomic_##name(void* p, const void* operand, const void*, void* old, int bytes, \
                             int order, PLACE) {                                              \
    atomic(p, operand, nullptr, old, static_cast<size_t>(bytes), order | lanes::kLoop,        \
           bytes == 2 ? add_16bit<T, 1> : add_16bit<T, 2>, SITE);                             \
  }
EMUCUDA_16BIT(add_f16, fa::fp16)
EMUCUDA_16BIT(add_bf16, fa::bf16)
#undef EMUCUDA_16BIT
EMUCUDA_INTEGER(add, false, a + b)
EMUCUDA_INTEGER(sub, false, a - b)
EMUCUDA_INTEGER(and, false, a& b)
EMUCUDA_INTEGER(or, false, a | b)
EMUCUDA_INTEGER(xor, false, a ^ b)
EMUCUDA_INTEGER(max, true, std::max(a, b))
EMUCUDA_INTEGER(min, true, std::min(a, b))
EMUCUDA_INTEGER(umax, false, std::max(a, b))
EMUCUDA_INTEGER(umin, false, std::min(a, b))
EMUCUDA_INTEGER(uinc_wrap, false, a >= b ? 0 : a + 1)
EMUCUDA_INTEGER(udec_wrap, false, a == 0 || a > b ? b : a - 1)
EMUCUDA_FLOAT(fadd, a + b)
EMUCUDA_FLOAT(fsub, a - b)
EMUCUDA_FLOAT(fmax, std::fmax(a, b))
EMUCUDA_FLOAT(fmin, std::fmin(a, b))
#undef EMUCUDA_INTEGER
#undef EMUCUDA_FLOAT
void emucuda_atomic_xchg(void* p, const void* operand, const void*, void* old, int bytes, int order,
                         PLACE) {
  // An exchange initializes. Few programs use what it returns the first time.
  if (!is_shared(p)) note_written(p, static_cast<size_t>(bytes), nullptr);
  atomic_integer(p, operand, old, bytes, order, false, SITE, [](auto, auto b) { return b; });
}
void emucuda_atomic_cas(void* p, const void* operand, const void* compare, void* old, int bytes,
                        int order, PLACE) {
  struct Pair {
    const void *operand, *compare;
    size_t bytes;
  } pair{operand, compare, static_cast<size_t>(bytes)};
  atomic(
      p, &pair, nullptr, old, pair.bytes, order,
      [](const void* before, const void* both, const void*, void* fresh) {
        const Pair& cas = *static_cast<const Pair*>(both);
        const bool equal = std::memcmp(before, cas.compare, cas.bytes) == 0;
        std::memcpy(fresh, equal ? cas.operand : before, cas.bytes);
      },
      SITE);
}
void emucuda_fence(PLACE) { emulator::thread_fence(line, file); }
void emucuda_membar_cta(PLACE) { emulator::thread_fence(line, file); }
void emucuda_membar_gl(PLACE) { emulator::thread_fence(line, file); }
void emucuda_membar_sys(PLACE) { emulator::thread_fence(line, file); }

int emucuda_isspacep_shared(const void* p, PLACE) {
  (void)line, (void)file;
  return is_shared(p);
}
int emucuda_isspacep_local(const void* p, PLACE) {
  (void)line, (void)file;
  return is_local(p);
}
int emucuda_isspacep_const(const void* p, PLACE) {
  (void)line, (void)file;
  return is_constant(p, 1);
}
int emucuda_isspacep_global(const void* p, PLACE) {
  (void)line, (void)file;
  return !is_shared(p) && !is_local(p) && !is_constant(p, 1);
}
void* emucuda_malloc(int64_t bytes, PLACE) {
  (void)line, (void)file;
  return device_malloc(static_cast<size_t>(bytes));
}
void emucuda_free(void* p, PLACE) {
  (void)line, (void)file;
  device_free(p);
}

// ---- places ----

#define EMUCUDA_PLACE(name, value)          \
  int emucuda_read_ptx_sreg_##name(PLACE) { \
    (void)line, (void)file;                 \
    return value;                           \
  }
EMUCUDA_PLACE(tid_x, current_thread().place.x)
EMUCUDA_PLACE(tid_y, current_thread().place.y)
EMUCUDA_PLACE(tid_z, current_thread().place.z)
EMUCUDA_PLACE(ctaid_x, current_thread().block->place().x)
EMUCUDA_PLACE(ctaid_y, current_thread().block->place().y)
EMUCUDA_PLACE(ctaid_z, current_thread().block->place().z)
EMUCUDA_PLACE(ntid_x, current_thread().block->launch().config.block.x)
EMUCUDA_PLACE(ntid_y, current_thread().block->launch().config.block.y)
EMUCUDA_PLACE(ntid_z, current_thread().block->launch().config.block.z)
EMUCUDA_PLACE(nctaid_x, current_thread().block->launch().config.grid.x)
EMUCUDA_PLACE(nctaid_y, current_thread().block->launch().config.grid.y)
EMUCUDA_PLACE(nctaid_z, current_thread().block->launch().config.grid.z)
EMUCUDA_PLACE(laneid, current_thread().lane)
EMUCUDA_PLACE(warpid, current_thread().warp->index)
EMUCUDA_PLACE(nwarpid, (current_thread().block->launch().threads + 31) / 32)
EMUCUDA_PLACE(smid, current_thread().block->index() % 132)
EMUCUDA_PLACE(nsmid, 132)
EMUCUDA_PLACE(warpsize, 32)
EMUCUDA_PLACE(lanemask_eq, static_cast<int>(1u << current_thread().lane))
EMUCUDA_PLACE(lanemask_lt, static_cast<int>((1u << current_thread().lane) - 1))
EMUCUDA_PLACE(lanemask_le, static_cast<int>((2u << current_thread().lane) - 1))
EMUCUDA_PLACE(lanemask_gt, static_cast<int>(~((2u << current_thread().lane) - 1)))
EMUCUDA_PLACE(lanemask_ge, static_cast<int>(~((1u << current_thread().lane) - 1)))
// The emulator has no time, so a clock counts the thread's instructions.
EMUCUDA_PLACE(clock, static_cast<int>(fa::simt::event_step(current_thread())))
#undef EMUCUDA_PLACE
int64_t emucuda_read_ptx_sreg_clock64(PLACE) {
  (void)line, (void)file;
  return fa::simt::event_step(current_thread());
}
int64_t emucuda_read_ptx_sreg_globaltimer(PLACE) {
  return emucuda_read_ptx_sreg_clock64(line, file);
}

// ---- barriers ----

void emucuda_barrier0(PLACE) { lanes::block_barrier(0, 0, false, SITE); }
void emucuda_barrier_n(int n, PLACE) { lanes::block_barrier(n, 0, false, SITE); }
void emucuda_barrier(int n, int threads, PLACE) { lanes::block_barrier(n, threads, false, SITE); }
void emucuda_barrier_sync(int n, PLACE) { lanes::block_barrier(n, 0, false, SITE); }
void emucuda_barrier_sync_cnt(int n, int threads, PLACE) {
  lanes::block_barrier(n, threads, false, SITE);
}
int emucuda_barrier0_popc(int value, PLACE) { return lanes::block_barrier(0, 0, value != 0, SITE); }
int emucuda_barrier0_or(int value, PLACE) {
  return lanes::block_barrier(0, 0, value != 0, SITE) > 0;
}
int emucuda_barrier0_and(int value, PLACE) {
  return lanes::block_barrier(0, 0, value == 0, SITE) == 0;
}
void emucuda_bar_warp_sync(int mask, PLACE) { lanes::sync(static_cast<uint32_t>(mask), SITE); }

// ---- warps ----

struct Shuffled {
  int value, found;
};
#define EMUCUDA_SHUFFLE(name, mode)                                                              \
  int emucuda_shfl_sync_##name##_i32(int mask, int value, int operand, int control, PLACE) {     \
    return static_cast<int>(lanes::shuffle(                                                      \
        lanes::Shuffle::mode, static_cast<uint32_t>(mask), static_cast<uint32_t>(value),         \
        static_cast<uint32_t>(operand), static_cast<uint32_t>(control), nullptr, SITE));         \
  }                                                                                              \
  void emucuda_shfl_sync_##name##_i32p(int mask, int value, int operand, int control,            \
                                       Shuffled* result, PLACE) {                                \
    bool found = false;                                                                          \
    result->value = static_cast<int>(lanes::shuffle(                                             \
        lanes::Shuffle::mode, static_cast<uint32_t>(mask), static_cast<uint32_t>(value),         \
        static_cast<uint32_t>(operand), static_cast<uint32_t>(control), &found, SITE));          \
    result->found = found;                                                                       \
  }                                                                                              \
  float emucuda_shfl_sync_##name##_f32(int mask, float value, int operand, int control, PLACE) { \
    return std::bit_cast<float>(emucuda_shfl_sync_##name##_i32(mask, std::bit_cast<int>(value),  \
                                                               operand, control, line, file));   \
  }                                                                                              \
  int emucuda_shfl_##name##_i32(int value, int operand, int control, PLACE) {                    \
    return emucuda_shfl_sync_##name##_i32(-1, value, operand, control, line, file);              \
  }                                                                                              \
  float emucuda_shfl_##name##_f32(float value, int operand, int control, PLACE) {                \
    return emucuda_shfl_sync_##name##_f32(-1, value, operand, control, line, file);              \
  }
EMUCUDA_SHUFFLE(idx, kIdx)
EMUCUDA_SHUFFLE(up, kUp)
EMUCUDA_SHUFFLE(down, kDown)
EMUCUDA_SHUFFLE(bfly, kXor)
#undef EMUCUDA_SHUFFLE

int emucuda_vote_ballot_sync(int mask, int predicate, PLACE) {
  return static_cast<int>(lanes::ballot(static_cast<uint32_t>(mask), predicate != 0, SITE));
}
int emucuda_vote_any_sync(int mask, int predicate, PLACE) {
  return emucuda_vote_ballot_sync(mask, predicate, line, file) != 0;
}
int emucuda_vote_all_sync(int mask, int predicate, PLACE) {
  return emucuda_vote_ballot_sync(mask, !predicate, line, file) == 0;
}
int emucuda_vote_uni_sync(int mask, int predicate, PLACE) {
  const auto votes = static_cast<uint32_t>(emucuda_vote_ballot_sync(mask, predicate, line, file));
  return votes == 0 || votes == (static_cast<uint32_t>(mask) & lanes::alive());
}
int emucuda_vote_ballot(int predicate, PLACE) {
  return emucuda_vote_ballot_sync(-1, predicate, line, file);
}
int emucuda_vote_any(int predicate, PLACE) {
  return emucuda_vote_any_sync(-1, predicate, line, file);
}
int emucuda_vote_all(int predicate, PLACE) {
  return emucuda_vote_all_sync(-1, predicate, line, file);
}
int emucuda_activemask(PLACE) { return static_cast<int>(lanes::active(SITE)); }
int emucuda_match_any_sync_i32(int mask, int value, PLACE) {
  return static_cast<int>(
      lanes::match(static_cast<uint32_t>(mask), static_cast<uint32_t>(value), SITE));
}
int emucuda_match_any_sync_i64(int mask, int64_t value, PLACE) {
  return static_cast<int>(
      lanes::match(static_cast<uint32_t>(mask), static_cast<uint64_t>(value), SITE));
}
struct MatchAll {
  int mask;
  bool all;
};
void emucuda_match_all_sync_i64p(int mask, int64_t value, MatchAll* result, PLACE) {
  const uint32_t same =
      lanes::match(static_cast<uint32_t>(mask), static_cast<uint64_t>(value), SITE);
  result->all = same == (static_cast<uint32_t>(mask) & lanes::alive());
  result->mask = result->all ? static_cast<int>(same) : 0;
}
void emucuda_match_all_sync_i32p(int mask, int value, MatchAll* result, PLACE) {
  emucuda_match_all_sync_i64p(mask, static_cast<uint32_t>(value), result, line, file);
}
#define EMUCUDA_REDUCE(name, T, expression)                               \
  int emucuda_redux_sync_##name(int value, int mask, PLACE) {             \
    return static_cast<int>(lanes::reduce(                                \
        static_cast<uint32_t>(mask), static_cast<uint32_t>(value),        \
        [](uint32_t left, uint32_t right) {                               \
          const auto a = static_cast<T>(left), b = static_cast<T>(right); \
          return static_cast<uint32_t>(expression);                       \
        },                                                                \
        SITE));                                                           \
  }
EMUCUDA_REDUCE(add, uint32_t, a + b)
EMUCUDA_REDUCE(min, int32_t, std::min(a, b))
EMUCUDA_REDUCE(max, int32_t, std::max(a, b))
EMUCUDA_REDUCE(umin, uint32_t, std::min(a, b))
EMUCUDA_REDUCE(umax, uint32_t, std::max(a, b))
EMUCUDA_REDUCE(and, uint32_t, a& b)
EMUCUDA_REDUCE(or, uint32_t, a | b)
EMUCUDA_REDUCE(xor, uint32_t, a ^ b)
#undef EMUCUDA_REDUCE
// One thread of each block calls this. It waits until all blocks have called it, and orders the
// earlier accesses of their threads before later ones.
void emucuda_grid_sync(PLACE) {
  int* const arrived = grid_barrier();
  const int blocks = current_thread().block->launch().config.grid.x *
                     current_thread().block->launch().config.grid.y *
                     current_thread().block->launch().config.grid.z;
  int before = 0;
  const auto order = lanes::kAcquire | lanes::kRelease;
  lanes::update(
      {arrived, 0}, sizeof before, &before, order,
      [](const void* old, void* fresh) {
        int count;
        std::memcpy(&count, old, sizeof count);
        ++count;
        std::memcpy(fresh, &count, sizeof count);
      },
      SITE);
  const int wanted = (before / blocks + 1) * blocks;
  for (int now = before + 1; now < wanted;) lanes::load(arrived, &now, sizeof now, order, SITE);
}
void emucuda_nanosleep(int, PLACE) { (void)line, (void)file; }

// ---- copies and tensor cores ----

void emucuda_cp_async(void* to, const void* from, int bytes, int source_bytes, PLACE) {
  if (source_bytes > 0 && is_uninitialized(from, static_cast<size_t>(source_bytes)))
    report_uninitialized(from, SITE);
  emulator::detail::cp_async(shared_address(to), from, bytes, source_bytes, line, file);
}
void emucuda_cp_async_ca_shared_global_4(void* to, const void* from, PLACE) {
  emucuda_cp_async(to, from, 4, 4, line, file);
}
void emucuda_cp_async_ca_shared_global_8(void* to, const void* from, PLACE) {
  emucuda_cp_async(to, from, 8, 8, line, file);
}
void emucuda_cp_async_ca_shared_global_16(void* to, const void* from, PLACE) {
  emucuda_cp_async(to, from, 16, 16, line, file);
}
void emucuda_cp_async_cg_shared_global_16(void* to, const void* from, PLACE) {
  emucuda_cp_async(to, from, 16, 16, line, file);
}
void emucuda_cp_async_commit_group(PLACE) { emulator::cp_async_commit(line, file); }
void emucuda_cp_async_wait_group(int pending, PLACE) {
  emulator::detail::cp_async_wait(pending, "", line, file);
}
void emucuda_cp_async_wait_all(PLACE) {
  emulator::cp_async_commit(line, file);
  emulator::detail::cp_async_wait(0, "", line, file);
}
void emucuda_ldmatrix(uint32_t* registers, int count, int trans, void* from, PLACE) {
  emulator::detail::ldmatrix(registers, count, trans != 0, shared_address(from), line, file);
}
int emucuda_pack_f16x2(float high, float low, PLACE) {
  return static_cast<int>(emulator::pack<fa::fp16>(low, high, line, file));
}
int emucuda_pack_bf16x2(float high, float low, PLACE) {
  return static_cast<int>(emulator::pack<fa::bf16>(low, high, line, file));
}
int emucuda_pack_e4m3x2(float high, float low, PLACE) {
  return fa::to_e4m3(emulator::detail::checked(low, line, file)).bits |
         fa::to_e4m3(emulator::detail::checked(high, line, file)).bits << 8;
}
int emucuda_unpack_e4m3x2(int pair, PLACE) {
  const auto number = [&](int shift) {
    return fa::to_float(fa::e4m3{static_cast<uint8_t>(pair >> shift)});
  };
  return static_cast<int>(emulator::pack<fa::fp16>(number(0), number(8), line, file));
}
void emucuda_mma_m16n8k16_f32_bf16_bf16_f32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                            float (&c)[4], PLACE) {
  emulator::mma_m16n8k16<fa::bf16>(a, b, c, line, file);
}
void emucuda_mma_m16n8k16_f32_f16_f16_f32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                          float (&c)[4], PLACE) {
  emulator::mma_m16n8k16<fa::fp16>(a, b, c, line, file);
}
// Half of the terms of m16n8k16, where the others are zeros.
void emucuda_mma_m16n8k8_f32_bf16_bf16_f32(const uint32_t* a, const uint32_t* b, float (&c)[4],
                                           PLACE) {
  const uint32_t wide_a[4] = {a[0], a[1], 0, 0}, wide_b[2] = {b[0], 0};
  emulator::mma_m16n8k16<fa::bf16>(wide_a, wide_b, c, line, file);
}
void emucuda_mma_m16n8k8_f32_f16_f16_f32(const uint32_t* a, const uint32_t* b, float (&c)[4],
                                         PLACE) {
  const uint32_t wide_a[4] = {a[0], a[1], 0, 0}, wide_b[2] = {b[0], 0};
  emulator::mma_m16n8k16<fa::fp16>(wide_a, wide_b, c, line, file);
}
void emucuda_mma_m16n8k8_f32_tf32_tf32_f32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                           float (&c)[4], PLACE) {
  lanes::mma<fa::tf32>(a, b, c, SITE);
}
void emucuda_mma_m16n8k4_f32_tf32_tf32_f32(const uint32_t* a, const uint32_t* b, float (&c)[4],
                                           PLACE) {
  const uint32_t wide_a[4] = {a[0], a[1], 0, 0}, wide_b[2] = {b[0], 0};
  lanes::mma<fa::tf32>(wide_a, wide_b, c, SITE);
}
void emucuda_mma_m16n8k32_f32_e4m3_e4m3_f32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                            float (&c)[4], PLACE) {
  lanes::mma<fa::e4m3>(a, b, c, SITE);
}
void emucuda_mma_m16n8k32_f32_e5m2_e5m2_f32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                            float (&c)[4], PLACE) {
  lanes::mma<fa::e5m2>(a, b, c, SITE);
}
void emucuda_mma_m16n8k32_f32_e4m3_e5m2_f32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                            float (&c)[4], PLACE) {
  lanes::mma<fa::Mixed<fa::e4m3, fa::e5m2>>(a, b, c, SITE);
}
void emucuda_mma_m16n8k32_f32_e5m2_e4m3_f32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                            float (&c)[4], PLACE) {
  lanes::mma<fa::Mixed<fa::e5m2, fa::e4m3>>(a, b, c, SITE);
}
// Accumulators of 16 bits are summed in fp32 and rounded once. We do not know how a GPU rounds
// them.
void emucuda_mma_m16n8k16_f16_f16_f16_f16(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                          uint32_t* c, PLACE) {
  float sums[4];
  for (int i = 0; i < 4; ++i) {
    sums[i] = i % 2 == 0 ? emulator::unpack_low<fa::fp16>(c[i / 2])
                         : emulator::unpack_high<fa::fp16>(c[i / 2]);
  }
  emulator::mma_m16n8k16<fa::fp16>(a, b, sums, line, file);
  for (int i = 0; i < 2; ++i) {
    c[i] = emulator::pack<fa::fp16>(sums[2 * i], sums[2 * i + 1], line, file);
  }
}
void emucuda_mma_m16n8k8_f16_f16_f16_f16(const uint32_t* a, const uint32_t* b, uint32_t* c, PLACE) {
  const uint32_t wide_a[4] = {a[0], a[1], 0, 0}, wide_b[2] = {b[0], 0};
  emucuda_mma_m16n8k16_f16_f16_f16_f16(wide_a, wide_b, c, line, file);
}
// 8-bit integers. The factors of A, of B are signed (1) or not (0).
void emucuda_mma_m16n8k32_s32(const uint32_t (&a)[4], const uint32_t (&b)[2], int (&c)[4],
                              int signed_a, int signed_b, int saturates, PLACE) {
  const auto multiply = [&](auto x, auto y) {
    lanes::mma_8bit<decltype(x), decltype(y)>(a, b, c, saturates != 0, SITE);
  };
  const auto with_b = [&](auto x) {
    signed_b != 0 ? multiply(x, int8_t{}) : multiply(x, uint8_t{});
  };
  signed_a != 0 ? with_b(int8_t{}) : with_b(uint8_t{});
}
void emucuda_mma_m16n8k16_s32(const uint32_t* a, const uint32_t* b, int (&c)[4], int signed_a,
                              int signed_b, int saturates, PLACE) {
  const uint32_t wide_a[4] = {a[0], a[1], 0, 0}, wide_b[2] = {b[0], 0};
  emucuda_mma_m16n8k32_s32(wide_a, wide_b, c, signed_a, signed_b, saturates, line, file);
}
void emucuda_mma_m8n8k16_s32(const uint32_t* a, const uint32_t* b, int* c, int signed_a,
                             int signed_b, int saturates, PLACE) {
  const uint32_t wide_a[4] = {a[0], 0, 0, 0}, wide_b[2] = {b[0], 0};
  int wide_c[4] = {c[0], c[1], 0, 0};
  emucuda_mma_m16n8k32_s32(wide_a, wide_b, wide_c, signed_a, signed_b, saturates, line, file);
  std::copy_n(wide_c, 2, c);
}

// ---- output and errors ----

int emucuda_vprintf(const char* text, const char* arguments, PLACE) {
  (void)line, (void)file;
  const std::string out = format(text, arguments);
  std::fwrite(out.data(), 1, out.size(), stdout);
  return static_cast<int>(out.size());
}
void emucuda_division_by_zero(PLACE) {
  lanes::report(fa::simt::HazardKind::kDivisionByZero, "divides an integer by zero", SITE);
}
void emucuda_outside_array(int64_t from, int64_t bytes, int64_t size, int writes, PLACE) {
  lanes::report(fa::simt::HazardKind::kOutOfBounds,
                std::string(writes ? "writes " : "reads ") + std::to_string(bytes) +
                    " bytes at byte " + std::to_string(from) + " of a local array of " +
                    std::to_string(size) + " bytes",
                SITE);
}
// The launch ends, with the error that the driver would return.
void emucuda_trap(PLACE) {
  const Thread& thread = current_thread();
  throw KernelStop{cudaErrorLaunchFailure,
                   std::string(file) + ":" + std::to_string(line) + ": thread " +
                       std::to_string(thread.index) + " of block " +
                       std::to_string(thread.block->index()) + " executes a trap"};
}
// NOLINTNEXTLINE(bugprone-reserved-identifier): emucuda_ before clang's name
void emucuda___assertfail(const char* message, const char*, int, const char* function, size_t,
                          PLACE) {
  const Thread& thread = current_thread();
  const fa::Dim3 block = thread.block->place();
  throw KernelStop{cudaErrorAssert,
                   std::string(file) + ":" + std::to_string(line) + ": " + function + ": block: [" +
                       std::to_string(block.x) + "," + std::to_string(block.y) + "," +
                       std::to_string(block.z) + "], thread: [" + std::to_string(thread.place.x) +
                       "," + std::to_string(thread.place.y) + "," + std::to_string(thread.place.z) +
                       "] Assertion `" + message + "` failed."};
}

}  // extern "C"

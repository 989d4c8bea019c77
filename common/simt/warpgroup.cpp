#include "common/simt/warpgroup.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "common/simt/begin.hpp"
#include "common/simt/block.hpp"
#include "common/tensor_core.hpp"

// A kernel that forgets a wait may leave the scope of an array that is in flight. The emulator then
// reads that memory, but writes it only if it still holds the poison.
#define FA_SIMT_NO_ASAN __attribute__((no_sanitize_address))

namespace fa::simt {

namespace {

// A signalling NaN of a pattern that no computation produces, for a pair of bf16. Accumulators have
// one of fp32, with a number that identifies the wgmma.
constexpr uint32_t kOperandPoison = 0x7fa17fa1;
using emulator::detail::kPoison, emulator::detail::kPoisons;

typedef uint32_t Bits __attribute__((may_alias));

FA_SIMT_NO_ASAN uint32_t load_bits(const void* p) { return *static_cast<const Bits*>(p); }
FA_SIMT_NO_ASAN void store_bits(void* p, uint32_t bits) { *static_cast<Bits*>(p) = bits; }

}  // namespace

void Warpgroup::begin_block() {
  engine_ = -1;
  operations_.clear();
  first_ = computed_ = 0;
  for (int w = 0; w < kWarpgroupWarps; ++w) {
    landed_[w] = 0;
    open_group_[w] = 0;
    fenced_[w] = false;
  }
  accumulators_.clear();
  operands_.clear();
  sites_.clear();
  early_reads_.clear();
  reported_.clear();
}

int Warpgroup::index_of(const Warp& warp) const { return static_cast<int>(&warp - warps_); }
const WgmmaCall& Warpgroup::call_of(int i) const {
  return *warps_[i / kWarpSize].wgmma[i % kWarpSize];
}
Thread& Warpgroup::thread(int i) const { return warps_[i / kWarpSize].first[i % kWarpSize]; }

void Warpgroup::report(int i, const Site& site, HazardKind kind, const std::string& text) {
  if (kind == HazardKind::kRegistersInFlight && !is_reported(site)) reported_.push_back(site);
  block_.report(kind, thread(i), site, 0, [&] { return text; });
}

bool Warpgroup::is_reported(const Site& wgmma) const {
  return std::any_of(reported_.begin(), reported_.end(),
                     [&](const Site& site) { return same_site(site, wgmma); });
}

// Returns the entry of these arrays, which is an existing one, an unused one, or a new one.
template <class Registers, class Pointer>
Registers& Warpgroup::find(std::vector<std::unique_ptr<Registers>>& all, Pointer pointer_of) {
  Registers* idle = nullptr;
  for (const std::unique_ptr<Registers>& each : all) {
    if (std::none_of(each->in_flight, each->in_flight + kWarpgroupWarps, std::identity{})) {
      idle = each.get();
      continue;
    }
    bool same = true;
    for (int i = 0; same && i < kWarpgroupSize; ++i) same = each->of[i] == pointer_of(i);
    if (same) return *each;
  }
  if (idle == nullptr) idle = all.emplace_back(std::make_unique<Registers>()).get();
  for (int i = 0; i < kWarpgroupSize; ++i) idle->of[i] = pointer_of(i);
  return *idle;
}

void Warpgroup::issue(const Thread& last, const Site& site) {
  if (engine_ < 0) engine_ = block_.new_engine();
  Operation operation{};
  operation.call = *last.warp->wgmma[last.lane];
  operation.site = site;
  for (int i = 0; i < kWarpgroupSize; ++i) {
    if (call_of(i).agrees_with(operation.call)) continue;
    report(i, site, HazardKind::kBadDescriptor,
           "passes a different descriptor than thread " + std::to_string(last.index) +
               ": all threads of a warpgroup must pass the same one");
    break;
  }
  operation.d = &find(accumulators_, [&](int i) { return call_of(i).d; });
  if (operation.call.a != nullptr) {
    operation.a = &find(operands_, [&](int i) { return call_of(i).a; });
  }
  check_fence(operation);
  take_accumulators(operation);
  if (operation.a != nullptr) take_operand(operation);
  for (int w = 0; w < kWarpgroupWarps; ++w) {
    operation.group[w] = open_group_[w];
    block_.traffic().wgmma(warps_[w].index, site, operation.call);
  }
  if (block_.launch().run.hazards) check_shared(operation);
  operations_.push_back(operation);
}

// Checks that a wgmma_fence is between ordinary uses of these registers and this wgmma.
void Warpgroup::check_fence(const Operation& operation) {
  for (int w = 0; w < kWarpgroupWarps; ++w) {
    const bool chained =
        operation.d->in_flight[w] && (operation.a == nullptr || operation.a->in_flight[w]);
    if (fenced_[w] || chained) continue;
    report(w * kWarpSize, operation.site, HazardKind::kRegistersInFlight,
           landed_[w] == 0 ? "begins a wgmma without a wgmma_fence before it"
                           : "begins a wgmma without a wgmma_fence since its last wgmma_wait: its "
                             "registers may not have been written yet");
    return;
  }
}

void Warpgroup::take_accumulators(Operation& operation) {
  Accumulator& d = *operation.d;
  const int registers = operation.call.n / 2;
  if (d.n != operation.call.n) {
    d.n = operation.call.n;
    d.columns.resize(static_cast<size_t>(d.n) * kRows);
  }
  d.last = first_ + static_cast<int64_t>(operations_.size());
  if (std::none_of(d.in_flight, d.in_flight + kWarpgroupWarps, std::identity{})) {
    d.poison = kPoison | static_cast<uint32_t>(d.last) % kPoisons;
  }
  sites_.resize(kPoisons);
  sites_[d.poison % kPoisons] = operation.site;
  bool poisoned = false;
  for (int w = 0; w < kWarpgroupWarps; ++w) {
    if (d.in_flight[w]) continue;
    d.in_flight[w] = true;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const int i = w * kWarpSize + lane, row = w * 16 + lane / 4;
      float* const values = d.of[i];
      for (int r = 0; r < registers; ++r) {
        const uint32_t bits = std::bit_cast<uint32_t>(values[r]);
        const bool in_flight = (bits & ~(kPoisons - 1)) == kPoison;
        if (in_flight && operation.call.accumulate && !poisoned) {
          poisoned = true;
          report(i, operation.site, HazardKind::kRegistersInFlight,
                 "accumulates in registers that another wgmma in flight has in use");
        }
        const int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
        d.columns[static_cast<size_t>(column * kRows + row + r / 2 % 2 * 8)] = values[r];
        store_bits(values + r, d.poison);
      }
    }
  }
}

void Warpgroup::take_operand(Operation& operation) {
  Operand& a = *operation.a;
  a.last = first_ + static_cast<int64_t>(operations_.size());
  a.site = operation.site;
  for (int w = 0; w < kWarpgroupWarps; ++w) {
    if (a.in_flight[w]) continue;
    a.in_flight[w] = true;
    for (int i = w * kWarpSize; i < (w + 1) * kWarpSize; ++i) {
      std::copy_n(a.of[i], 4, a.values[i]);
      for (int r = 0; r < 4; ++r) store_bits(a.of[i] + r, kOperandPoison);
    }
  }
}

void Warpgroup::check_shared(const Operation& operation) {
  const WgmmaCall& call = operation.call;
  Access access = stamp(thread(0), operation.site);
  access.engine = static_cast<int16_t>(engine_);
  access.engine_time = static_cast<uint32_t>(first_ + static_cast<int64_t>(operations_.size())) + 1;
  access.engine_work = Instruction::kWgmma;
  const uint32_t record = block_.shadow().begin_async_read(access);
  if (call.a == nullptr) {
    check_operand(operation, "A", call.descriptor_a, call.mn_major_a, kRows, record);
  }
  check_operand(operation, "B", call.descriptor_b, call.mn_major_b, call.n, record);
}

// Checks that all 16-byte chunks are in shared memory, in the tile of one tensor, and may be read.
void Warpgroup::check_operand(const Operation& operation, const char* name, uint64_t bits,
                              bool mn_major, int rows, uint32_t record) {
  const MatrixDescriptor descriptor(bits);
  const std::string of = std::string("gives a descriptor for ") + name;
  const auto bad = [&](const std::string& why) {
    report(0, operation.site, HazardKind::kBadDescriptor, of + why);
  };
  if (descriptor.reserved) bad(" with reserved bits set");
  if (descriptor.base_offset != 0) {
    bad(" with a base offset, which the emulator does not support: align tiles to 8 lines");
  }
  if (!descriptor.aligned()) {
    bad(" that begins at byte " + std::to_string(int64_t{descriptor.start} - kSharedBase) +
        ", in the middle of 8 swizzled lines");
  }
  const Observer issuers[] = {observer(warps_[0]), observer(warps_[1]), observer(warps_[2]),
                              observer(warps_[3])};
  const void* tensor = nullptr;
  const int chunks = rows * kChunks;
  for (int i = 0; i < chunks; ++i) {
    const uint32_t address = mn_major ? descriptor.mn_major(i % (rows / 8), i / (rows / 8))
                                      : descriptor.k_major(i / kChunks, i % kChunks);
    const int64_t offset = int64_t{address} - kSharedBase;
    if (offset < 0 || offset + 16 > int64_t{block_.launch().smem_bytes}) {
      return bad(" that leads to byte " + std::to_string(offset) +
                 " of dynamic shared memory, which has " +
                 std::to_string(block_.launch().smem_bytes) + " bytes");
    }
    const void* const from =
        block_.shadow().async_read(record, issuers, static_cast<uint32_t>(offset), 16);
    if (from == nullptr) continue;
    if (tensor != nullptr && from != tensor) {
      return bad(" that leads from a tile of " + describe_address(tensor) + " into one of " +
                 describe_address(from) + ", at byte " + std::to_string(offset));
    }
    tensor = from;
  }
}

void Warpgroup::fence(const Warp& warp) { fenced_[index_of(warp)] = true; }
void Warpgroup::commit(const Warp& warp) { ++open_group_[index_of(warp)]; }

void Warpgroup::wait(const Thread& last, int pending_groups,
                     std::span<const float* const> registers, const Site& site) {
  Warp& warp = *last.warp;
  const int w = index_of(warp);
  const int limit = open_group_[w] - pending_groups;  // number of the first group that may stay in
                                                      // flight
  const int64_t before = landed_[w];
  while (landed_[w] < first_ + static_cast<int64_t>(operations_.size()) &&
         operations_[static_cast<size_t>(landed_[w] - first_)].group[w] < limit) {
    if (computed_ == landed_[w]) {
      compute(operations_[static_cast<size_t>(computed_++ - first_)]);
      if (block_.launch().run.hazards) block_.shadow().end_async_read();
    }
    ++landed_[w];
  }
  if (landed_[w] == before) return;
  fenced_[w] = false;
  give_back(w, last, registers, site);
  warp.clock.learn_warp(engine_, static_cast<uint32_t>(landed_[w]) + 1);
  const int64_t done = *std::min_element(landed_, landed_ + kWarpgroupWarps);
  for (; first_ < done; ++first_) operations_.pop_front();
}

// Returns to the warp all registers that no operation in flight uses.
void Warpgroup::give_back(int w, const Thread& last, std::span<const float* const> registers,
                          const Site& wait) {
  for (const std::unique_ptr<Accumulator>& d : accumulators_) {
    if (!d->in_flight[w] || d->last >= landed_[w]) continue;
    d->in_flight[w] = false;
    const Site site = operations_[static_cast<size_t>(d->last - first_)].site;
    const float* const own = d->of[w * kWarpSize + last.lane];
    // In a CUDA file a wait names none, because the compiler finds out which registers it returns.
    if (!block_.launch().run.cuda_rules &&
        std::find(registers.begin(), registers.end(), own) == registers.end()) {
      report(w * kWarpSize, site, HazardKind::kRegistersInFlight,
             "has its accumulators in flight up to the wgmma_wait at " + to_string(wait) +
                 ", which does not name them: the wait that returns accumulators must name them");
    }
    bool touched = false;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const int i = w * kWarpSize + lane, row = w * 16 + lane / 4;
      for (int r = 0; r < d->n / 2; ++r) {
        if (load_bits(d->of[i] + r) != d->poison) {
          if (!touched) {
            report(i, site, HazardKind::kRegistersInFlight,
                   "writes accumulator " + std::to_string(r) +
                       " before its wgmma_wait, while this wgmma is in flight");
          }
          touched = true;
          continue;  // the memory may have another use by now
        }
        const int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
        const float value = d->columns[static_cast<size_t>(column * kRows + row + r / 2 % 2 * 8)];
        store_bits(d->of[i] + r, std::bit_cast<uint32_t>(value));
      }
    }
  }
  for (const std::unique_ptr<Operand>& a : operands_) {
    if (!a->in_flight[w] || a->last >= landed_[w]) continue;
    a->in_flight[w] = false;
    for (int i = w * kWarpSize; i < (w + 1) * kWarpSize; ++i) {
      for (int r = 0; r < 4; ++r) {
        if (load_bits(a->of[i] + r) == kOperandPoison) store_bits(a->of[i] + r, a->values[i][r]);
      }
    }
  }
}

void Warpgroup::compute(Operation& operation) {
  if (operation.call.type == WgmmaType::bf16) multiply<bf16>(operation);
  if (operation.call.type == WgmmaType::fp16) multiply<fp16>(operation);
  if (operation.call.type == WgmmaType::e4m3) multiply<e4m3>(operation);
}

// Loads A from registers, word by word. If a thread has written one of them in the meantime,
// reports it and uses the new value.
void Warpgroup::load_registers(const Operation& operation,
                               uint32_t (&words)[kWordsAtATime][kRows]) {
  const Operand& a = *operation.a;
  bool touched = false;
  for (int i = 0; i < kWarpgroupSize; ++i) {
    const int lane = i % kWarpSize, w = i / kWarpSize;
    for (int r = 0; r < 4; ++r) {
      uint32_t word = a.values[i][r];
      if (a.in_flight[w]) {
        const uint32_t now = load_bits(a.of[i] + r);
        if (now != kOperandPoison) {
          word = now;
          if (!touched) {
            report(i, operation.site, HazardKind::kRegistersInFlight,
                   "writes a register of operand A before its wgmma_wait, while this wgmma is in "
                   "flight");
          }
          touched = true;
        }
      }
      words[lane % 4 + r / 2 * 4][w * 16 + lane / 4 + r % 2 * 8] = word;
    }
  }
}

// Loads 16 bytes of shared memory, which are elements 8 c to 8 c + 7 of a row if K-major, or one
// element of each of eight rows if MN-major. A descriptor that points outside shared memory gives
// NaN.
template <class Place>
void Warpgroup::load_chunk(uint32_t address, Place place) const {
  constexpr int kWide = 8;
  uint16_t numbers[kWide];
  const int64_t offset = int64_t{address} - kSharedBase;
  if (offset < 0 || offset + 16 > int64_t{block_.launch().smem_bytes}) {
    std::memset(numbers, 0xff, sizeof numbers);
  } else {
    std::memcpy(numbers, block_.shared() + offset, sizeof numbers);
  }
  for (int i = 0; i < kWide; ++i) place(i, numbers[i]);
}

// D = A B (+ D), added in the way of the tensor core.
template <class T>
void Warpgroup::multiply(Operation& operation) {
  constexpr int kWide = 8;  // elements of 16 bits, or pairs of 8 bits, in 16 bytes
  const WgmmaCall& call = operation.call;
  alignas(32) uint32_t A[kWordsAtATime][kRows], B[kMaxColumns][kWordsAtATime];
  const auto put = [](uint32_t& word, int k, uint16_t number) {
    word = k % 2 == 0 ? number : word | static_cast<uint32_t>(number) << 16;
  };
  if (call.a != nullptr) {
    load_registers(operation, A);
  } else {
    const MatrixDescriptor a(call.descriptor_a);
    for (int i = 0; i < kRows * kChunks; ++i) {
      if (call.mn_major_a) {
        const int k = i / kWide, first = i % kWide * kWide;
        load_chunk(a.mn_major(i % kWide, k),
                   [&](int r, uint16_t number) { put(A[k / 2][first + r], k, number); });
      } else {
        const int row = i / kChunks, first = i % kChunks * kWide;
        load_chunk(a.k_major(row, i % kChunks),
                   [&](int k, uint16_t number) { put(A[(first + k) / 2][row], k, number); });
      }
    }
  }
  const MatrixDescriptor b(call.descriptor_b);
  const int groups = call.n / kWide;
  for (int i = 0; i < call.n * kChunks; ++i) {
    if (call.mn_major_b) {
      const int k = i / groups, first = i % groups * kWide;
      load_chunk(b.mn_major(i % groups, k),
                 [&](int c, uint16_t number) { put(B[first + c][k / 2], k, number); });
    } else {
      const int column = i / kChunks, first = i % kChunks * kWide;
      load_chunk(b.k_major(column, i % kChunks),
                 [&](int k, uint16_t number) { put(B[column][(first + k) / 2], k, number); });
    }
  }
  float* const sums = operation.d->columns.data();
  if (!call.accumulate) std::fill_n(sums, static_cast<size_t>(call.n) * kRows, 0.0f);
  tensor_core_multiply<T, kRows>(sums, call.n, A[0], B[0]);
}

void Warpgroup::note_early_read(const Thread& thread, uint32_t bits, const Site& site) {
  if (sites_.empty()) return;
  const Site& wgmma = sites_[bits % kPoisons];
  const auto known = [&](const EarlyRead& read) { return same_site(read.wgmma, wgmma); };
  if (wgmma.line == 0 || std::any_of(early_reads_.begin(), early_reads_.end(), known)) return;
  early_reads_.push_back({thread.index % kWarpgroupSize, wgmma, site});
}

void Warpgroup::report_leftovers() {
  for (const Operation& operation : operations_) {
    report(0, operation.site, HazardKind::kRegistersInFlight,
           "ends while this wgmma is in flight: no wgmma_wait covers it");
  }
  for (const EarlyRead& read : early_reads_) {
    if (is_reported(read.wgmma)) continue;
    report(read.thread, read.wgmma, HazardKind::kRegistersInFlight,
           "reads accumulators of this wgmma before its wgmma_wait: it uses them at " +
               to_string(read.use));
  }
}

}  // namespace fa::simt

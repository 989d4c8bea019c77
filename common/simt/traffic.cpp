#include "common/simt/traffic.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/simt/block.hpp"

namespace fa::simt {

namespace {

constexpr int kBanks = 32;
constexpr int kWordBytes = 4;
constexpr int kWavefrontBytes = kBanks * kWordBytes;
constexpr int kSectorBytes = 32;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Returns how many of a warp's copies read global memory. The others only fill with zeros.
int lanes_that_read(const WarpAccess& access) {
  int count = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    count += (access.lanes >> lane & 1) && access.sizes[static_cast<size_t>(lane)] > 0;
  }
  return count;
}

// True if a lane's address is not at the start of a sector. A card reads whole sectors. (Addresses
// of other lanes belong to an earlier access.)
bool starts_within_a_sector(const WarpAccess& access) {
  for (size_t lane = 0; lane < kWarpSize; ++lane)
    if ((access.lanes >> lane & 1) && access.global[lane] % kSectorBytes != 0) return true;
  return false;
}

}  // namespace

int matrix_wavefronts(const uint32_t (&addresses)[8]) {
  // A row covers four banks and is aligned, so two rows share either all four banks or none.
  uint32_t rows[8][8];
  int count[8] = {}, busiest = 0;
  for (uint32_t address : addresses) {
    const uint32_t row = address / 16, banks = row % 8;
    bool seen = false;
    for (int i = 0; i < count[banks]; ++i) seen |= rows[banks][i] == row;
    if (!seen) rows[banks][count[banks]++] = row;
    busiest = std::max(busiest, count[banks]);
  }
  return busiest;
}

int access_wavefronts(const uint32_t* addresses, uint32_t lanes, int bytes, bool load) {
  const int words_each = std::max(1, bytes / kWordBytes);
  const int lanes_each = kWarpSize / words_each;  // lanes that share a pass
  // A wide load combines two such groups in one pass if each lane reads the same address as its
  // neighbour, or each the same as the lane two further. (Measured: h200/access_patterns.csv.)
  const auto alike = [&](int first, int distance) {
    for (int lane = first; lane < first + 2 * lanes_each; ++lane) {
      const int other = lane ^ distance;
      if ((lanes >> lane & lanes >> other & 1) != 0 && addresses[lane] != addresses[other]) {
        return false;
      }
    }
    return true;
  };
  int total = 0, end = 0;
  for (int first = 0; first < kWarpSize; first = end) {
    end = first + lanes_each;
    if (load && first % (2 * lanes_each) == 0 && words_each > 1 &&
        (alike(first, 1) || alike(first, 2))) {
      end += lanes_each;
    }
    uint32_t words[kBanks][kWarpSize];
    int count[kBanks] = {}, busiest = 0;
    for (int lane = first; lane < end; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      for (int i = 0; i < words_each; ++i) {
        const uint32_t word = addresses[lane] / kWordBytes + static_cast<uint32_t>(i);
        uint32_t* in_bank = words[word % kBanks];
        int& n = count[word % kBanks];
        if (std::find(in_bank, in_bank + n, word) == in_bank + n) in_bank[n++] = word;
        busiest = std::max(busiest, n);
      }
    }
    total += busiest;
  }
  return total;
}

int global_sectors(const uint64_t* addresses, const uint8_t* sizes, uint32_t lanes) {
  uint64_t sectors[kWarpSize * 2];  // at most two per lane for an aligned access of up to 16 bytes
  int count = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1) == 0 || sizes[lane] == 0) continue;
    const uint64_t first = addresses[lane] / kSectorBytes;
    const uint64_t last = (addresses[lane] + sizes[lane] - 1) / kSectorBytes;
    for (uint64_t sector = first; sector <= last; ++sector) {
      if (count > 0 && sectors[count - 1] == sector) continue;  // the usual case
      if (std::find(sectors, sectors + count, sector) == sectors + count) {
        sectors[count++] = sector;
      }
    }
  }
  return count;
}

namespace {

// Splits the lanes of an atomic instruction into passes in which no two lanes have the same
// address, and calls f(lanes) for each.
template <class Address, class F>
void for_each_pass(const Address* addresses, uint32_t lanes, F f) {
  while (lanes != 0) {
    uint32_t pass = 0;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      bool taken = false;
      for (uint32_t before = pass; before != 0; before &= before - 1)
        taken |= addresses[std::countr_zero(before)] == addresses[lane];
      if (!taken) pass |= 1u << lane;
    }
    f(lanes, pass);
    lanes &= ~pass;
  }
}

}  // namespace

// The rules of an H100, where Nsight Compute counted seven patterns of each
// (docs/measurements/h100/atomics.csv). An operation on global memory takes a pass over a sector
// for each lane with the same address. One on integers in shared memory merges lanes with the same
// word. One on floats there is a loop of a load and a compare-and-swap, which one lane for each
// word leaves in each iteration.
void Traffic::count_atomic(const WarpAccess& access) {
  const int bytes = std::popcount(access.lanes) * access.bytes;
  if (access.instruction == Instruction::kAtomicAdd) {
    for_each_pass(access.global.data(), access.lanes, [&](uint32_t, uint32_t pass) {
      counters_.global_atomic_sectors +=
          global_sectors(access.global.data(), access.sizes.data(), pass);
    });
    counters_.global_atomic_sectors_ideal += ceil_div(bytes, kSectorBytes);
    return;
  }
  const uint32_t* const shared = access.shared.data();
  const int ideal = ceil_div(bytes, kWavefrontBytes);
  if (access.instruction == Instruction::kAtomicShared) {
    counters_.shared_atomic_wavefronts +=
        access_wavefronts(shared, access.lanes, access.bytes, false);
    counters_.shared_atomic_wavefronts_ideal += ideal;
  } else {
    for_each_pass(shared, access.lanes, [&](uint32_t lanes, uint32_t) {
      counters_.shared_atomic_wavefronts +=
          2 * access_wavefronts(shared, lanes, access.bytes, false);
    });
    counters_.shared_atomic_wavefronts_ideal += 2 * ideal;
  }
  if (access.bytes != 4) estimate(&Counters::shared_atomic_wavefronts);
}

WarpAccess& AccessCollector::join(int lane, Instruction instruction, const Site& site, int bytes) {
  const auto index = static_cast<size_t>(lane);
  Line* line = lines_.data();
  Line* const end = line + line_count_;
  while (line != end && !(line->site.line == site.line && line->site.file == site.file &&
                          line->instruction == instruction && line->bytes == bytes)) {
    ++line;
  }
  if (line == end) line = &add_line(instruction, site, bytes);
  const uint32_t turn = line->joined[index]++;
  if (turn == line->instructions.size()) {
    if (count_ == accesses_.size()) accesses_.emplace_back();
    WarpAccess& fresh = accesses_[count_];
    fresh.instruction = instruction;
    fresh.site = site;
    fresh.bytes = static_cast<uint8_t>(bytes);
    fresh.lanes = 0;
    fresh.group = fresh.first_landed = fresh.pending_groups = -1;
    fresh.box_bytes = fresh.outside_bytes = 0;
    fresh.mbarrier = -1;
    uint32_t& next = last_[index] == 0 ? first_ : accesses_[last_[index] - 1].next;
    line->instructions.push_back(static_cast<uint32_t>(count_++));
    fresh.next = std::exchange(next, static_cast<uint32_t>(count_));
    ++unfinished_;
  }
  WarpAccess& access = accesses_[line->instructions[turn]];
  last_[index] = line->instructions[turn] + 1;
  access.lanes |= 1u << lane;
  if (access.lanes == all_lanes_) --unfinished_;
  ++lane_counts_[index];
  return access;
}

AccessCollector::Line& AccessCollector::add_line(Instruction instruction, const Site& site,
                                                 int bytes) {
  if (line_count_ == lines_.size()) lines_.emplace_back();
  Line& line = lines_[line_count_++];
  line.instruction = instruction;
  line.site = site;
  line.bytes = bytes;
  line.instructions.clear();
  line.joined.fill(0);
  return line;
}

void AccessCollector::clear() {
  count_ = line_count_ = unfinished_ = 0;
  far_ = kFar;
  lane_counts_.fill(0);
  first_ = 0;
  last_.fill(0);
}

void Traffic::begin_block(int block, int warps) {
  block_ = block;
  logging_ = config_.events && block < config_.event_blocks;
  if (logging_) {
    steps_.assign(static_cast<size_t>(warps), 0);
    group_bytes_.assign(static_cast<size_t>(warps), {});
  }
}

void Traffic::estimate(int64_t Counters::*field) {
  uint32_t bit = 1;
  for (const CounterField& known : kCounterFields) {
    if (known.value == field) counters_.estimates |= bit;
    bit <<= 1;
  }
}

void Traffic::access(int warp, const WarpAccess& access) {
  if (config_.lines) {
    const Counters before = counters_;
    count(access);
    count_line(access.site, before);
  } else if (config_.counters) {
    count(access);
  }
  if (logging_) log(warp, access.instruction, access.site, &access);
}

void Traffic::count_line(const Site& site, const Counters& before) {
  LineCounters& line = lines_[{site.file, site.line}];
  line.where = site;
  const auto add = [&](int64_t& sum, int64_t Counters::*one, int64_t Counters::*other) {
    sum += counters_.*one - before.*one;
    if (other != nullptr) sum += counters_.*other - before.*other;
  };
  add(line.shared_wavefronts, &Counters::shared_load_wavefronts,
      &Counters::shared_store_wavefronts);
  add(line.shared_wavefronts_ideal, &Counters::shared_load_wavefronts_ideal,
      &Counters::shared_store_wavefronts_ideal);
  add(line.global_sectors, &Counters::global_load_sectors, &Counters::global_store_sectors);
  add(line.global_sectors_ideal, &Counters::global_load_sectors_ideal,
      &Counters::global_store_sectors_ideal);
  add(line.shared_wavefronts, &Counters::shared_atomic_wavefronts, nullptr);
  add(line.shared_wavefronts_ideal, &Counters::shared_atomic_wavefronts_ideal, nullptr);
  add(line.global_sectors, &Counters::global_atomic_sectors, nullptr);
  add(line.global_sectors_ideal, &Counters::global_atomic_sectors_ideal, nullptr);
}

void Traffic::count_instruction(Instruction instruction) {
  const InstructionInfo& row = info(instruction);
  if (row.counter == nullptr) return;
  ++(counters_.*row.counter);
  if (row.confirmed == Confirmed::kNo) estimate(row.counter);
}

void Traffic::count(const WarpAccess& access) {
  const int lanes = std::popcount(access.lanes);
  const uint32_t* shared = access.shared.data();
  const bool estimated = info(access.instruction).confirmed == Confirmed::kNo;
  count_instruction(access.instruction);
  switch (access.instruction) {
    case Instruction::kCpAsync: {
      const int wavefronts = access_wavefronts(shared, access.lanes, access.bytes, false);
      const int ideal = ceil_div(lanes * access.bytes, kWavefrontBytes);
      counters_.shared_store_wavefronts += wavefronts;
      counters_.shared_store_wavefronts_ideal += ideal;
      // If only some lanes copy and others fill with zeros, hardware takes a few more passes.
      if (access.bytes != 16 || wavefronts != ideal || lanes != kWarpSize ||
          lanes_that_read(access) % kWarpSize != 0) {
        estimate(&Counters::shared_store_wavefronts);
      }
      [[fallthrough]];
    }
    case Instruction::kLoadGlobal:
    case Instruction::kLoadAcquire: {
      int bytes = 0;
      for (int lane = 0; lane < kWarpSize; ++lane) {
        if (access.lanes >> lane & 1) bytes += access.sizes[static_cast<size_t>(lane)];
      }
      const int sectors = global_sectors(access.global.data(), access.sizes.data(), access.lanes);
      counters_.global_load_sectors += sectors;
      counters_.global_load_sectors_ideal += std::min(sectors, ceil_div(bytes, kSectorBytes));
      // Not measured for single bytes and for copies of less than 16 bytes.
      const bool unknown = access.instruction == Instruction::kCpAsync
                               ? access.bytes != 16 || bytes != 16 * lanes_that_read(access)
                               : access.bytes == 1;
      if (estimated || unknown) estimate(&Counters::global_load_sectors);
      break;
    }
    case Instruction::kStoreGlobal:
    case Instruction::kStoreRelease:
      counters_.global_store_sectors +=
          global_sectors(access.global.data(), access.sizes.data(), access.lanes);
      counters_.global_store_sectors_ideal += ceil_div(lanes * access.bytes, kSectorBytes);
      if (estimated || access.bytes == 1) estimate(&Counters::global_store_sectors);
      break;
    case Instruction::kLoadShared: {
      const int wavefronts = access_wavefronts(shared, access.lanes, access.bytes, true);
      counters_.shared_load_wavefronts += wavefronts;
      counters_.shared_load_wavefronts_ideal +=
          std::min(wavefronts, ceil_div(lanes * access.bytes, kWavefrontBytes));
      if (estimated) estimate(&Counters::shared_load_wavefronts);
      break;
    }
    case Instruction::kStoreShared:
      counters_.shared_store_wavefronts +=
          access_wavefronts(shared, access.lanes, access.bytes, false);
      counters_.shared_store_wavefronts_ideal += ceil_div(lanes * access.bytes, kWavefrontBytes);
      if (estimated) estimate(&Counters::shared_store_wavefronts);
      break;
    case Instruction::kAtomicAdd:
    case Instruction::kAtomicShared:
    case Instruction::kAtomicSharedLoop:
      if (config_.cuda_rules) count_atomic(access);
      break;
    case Instruction::kTmaLoad:
    case Instruction::kTmaStore:
    case Instruction::kBulkReduceAdd:
      counters_.tma_bytes += access.box_bytes;
      counters_.tma_bytes_outside += access.outside_bytes;
      if (estimated || starts_within_a_sector(access)) estimate(&Counters::tma_bytes);
      break;
    case Instruction::kBulkCopy:
      counters_.tma_bytes += access.box_bytes;
      estimate(&Counters::tma_bytes);
      break;
    default:
      break;
  }
}

void Traffic::matrices(int warp, Instruction instruction, const Site& site,
                       const uint32_t* addresses, int matrices) {
  if (config_.counters) {
    const Counters before = counters_;
    count_instruction(instruction);
    const bool stores = info(instruction).event == EventKind::kStoreShared;
    int64_t& wavefronts =
        stores ? counters_.shared_store_wavefronts : counters_.shared_load_wavefronts;
    int64_t& ideal =
        stores ? counters_.shared_store_wavefronts_ideal : counters_.shared_load_wavefronts_ideal;
    for (int i = 0; i < matrices; ++i) {
      uint32_t rows[8];
      std::copy(addresses + 8 * i, addresses + 8 * i + 8, rows);
      wavefronts += matrix_wavefronts(rows);
    }
    ideal += matrices;
    if (info(instruction).confirmed == Confirmed::kNo) estimate(&Counters::shared_store_wavefronts);
    if (config_.lines) count_line(site, before);
  }
  if (logging_) {
    log(warp, instruction, site, nullptr);
    events_.back().address = addresses[0];
    events_.back().bytes = matrices * 128;
  }
}

void Traffic::collective(int warp, Instruction instruction, const Site& site) {
  count_instruction(instruction);
  if (logging_) log(warp, instruction, site, nullptr);
}

void Traffic::barrier(int warp, Instruction instruction, const Site& site, int number) {
  collective(warp, instruction, site);
  if (logging_) events_.back().barrier = number;
}

void Traffic::wgmma_wait(int warp, const Site& site, int pending_groups) {
  collective(warp, Instruction::kWgmmaWait, site);
  if (logging_) events_.back().pending_groups = pending_groups;
}

void Traffic::wgmma(int warp, const Site& site, const WgmmaCall& call) {
  collective(warp, Instruction::kWgmma, site);
  if (!logging_) return;
  const auto operand = [](uint64_t bits, bool mn_major) {
    const auto start = static_cast<int>(MatrixDescriptor(bits).start);
    return EventOperand{bits, mn_major, start - static_cast<int>(kSharedBase)};
  };
  Event& event = events_.back();
  event.n = call.n;
  if (call.a == nullptr) event.a = operand(call.descriptor_a, call.mn_major_a);
  event.b = operand(call.descriptor_b, call.mn_major_b);
}

void Traffic::log(int warp, Instruction instruction, const Site& site, const WarpAccess* access) {
  const EventKind kind = info(instruction).event;
  Event event;
  event.kind = kind;
  event.block = block_;
  event.warp = warp;
  event.step = steps_[static_cast<size_t>(warp)]++;
  event.where = site;
  if (access != nullptr) {
    const auto lane = static_cast<size_t>(std::countr_zero(access->lanes));
    std::vector<int>& group_bytes = group_bytes_[static_cast<size_t>(warp)];
    event.group = access->group;
    event.bytes = std::popcount(access->lanes) * access->bytes;
    if (kind == EventKind::kCopyIssue) {
      event.address = access->shared[lane];
      event.source = access->global[lane];
      if (static_cast<size_t>(event.group) >= group_bytes.size()) {
        group_bytes.resize(static_cast<size_t>(event.group) + 1);
      }
      group_bytes[static_cast<size_t>(event.group)] += event.bytes;
    }
    if (kind == EventKind::kTmaLoad || kind == EventKind::kTmaStore) {
      event.address = access->shared[lane];
      event.source = access->global[lane];
      event.coordinates = access->coordinates;
    }
    if (access->box_bytes > 0) event.bytes = static_cast<int>(access->box_bytes);
    if (access->mbarrier >= 0) {
      event.mbarrier = access->mbarrier;
      event.phase = access->phase;
      event.parity = access->parity;
    }
    if (access->instruction == Instruction::kCpAsyncWait) {
      event.pending_groups = access->pending_groups;
      event.group = -1;
      events_.push_back(event);
      for (int group = access->first_landed; group <= access->group; ++group) {
        event.kind = EventKind::kLand;
        event.group = group;
        event.pending_groups = -1;
        const auto index = static_cast<size_t>(group);
        event.bytes = index < group_bytes.size() ? group_bytes[index] : 0;
        events_.push_back(event);
      }
      return;
    }
  }
  events_.push_back(event);
}

}  // namespace fa::simt

// Instructions that four warps execute together, and the registers of a warpgroup.

#include <stdexcept>
#include <string>

#include "common/simt/block.hpp"

namespace fa::simt {

Warpgroup& Block::warpgroup(const Thread& thread, Instruction instruction) {
  const auto number = static_cast<size_t>(thread.warp->index / kWarpgroupWarps);
  if (number >= warpgroups_.size()) {
    throw std::runtime_error(std::string(info(instruction).name) +
                             " needs four warps, but the last warpgroup of this block has " +
                             std::to_string(warps_.size() % kWarpgroupWarps) +
                             "; launch a multiple of 128 threads");
  }
  return *warpgroups_[number];
}

std::pair<int, int> Block::converged_warps(int warp) const {
  const auto number = static_cast<size_t>(warp / kWarpgroupWarps);
  if (number >= warpgroups_.size() || !warpgroups_[number]->used()) return {warp, warp};
  const int first = warp / kWarpgroupWarps * kWarpgroupWarps;
  return {first, first + kWarpgroupWarps - 1};
}

bool Block::meet_warpgroup(Thread& thread, Instruction instruction, const Site& site) {
  if (!meet(thread, instruction, site)) return false;
  warpgroup(thread, instruction);  // throws if there is none
  Warp& warp = *thread.warp;
  const auto number = static_cast<size_t>(warp.index / kWarpgroupWarps);
  Meeting& group = meetings_[number];
  if (group.arrived == 0) {
    group.meeting = instruction;
    group.site = site;
  } else if (group.meeting != instruction || !same_site(group.site, site)) {
    diverge(thread, instruction, site);
  }
  if (++group.arrived < kWarpgroupWarps) {
    park_warp(thread, {instruction, site});
    return false;
  }
  group.arrived = 0;
  Warp* const first = &warps_[number * kWarpgroupWarps];
  for (Warp* each = first; each != first + kWarpgroupWarps; ++each) wake_warp(*each);
  return true;
}

// Moves registers between warpgroups. One warpgroup can claim the registers that another one
// releases. The block keeps the number that it was launched with.
void Block::set_registers(Thread& thread, Instruction instruction, int registers,
                          const Site& site) {
  if (!meet_warpgroup(thread, instruction, site)) return;
  const auto number = static_cast<size_t>(thread.warp->index / kWarpgroupWarps);
  Meeting& group = meetings_[number];
  Warp* const first = &warps_[number * kWarpgroupWarps];
  for (int w = 0; w < kWarpgroupWarps; ++w) traffic_.collective(first[w].index, instruction, site);
  const int more = registers - group.registers;
  if ((instruction == Instruction::kSetmaxnregInc) != (more >= 0) && more != 0) {
    throw std::runtime_error(std::string(info(instruction).name) + " to " +
                             std::to_string(registers) + " registers, but each thread has " +
                             std::to_string(group.registers));
  }
  if (more > free_registers_) {
    group.wanted_registers = registers;
    const Wait wait{instruction, site, registers};
    for (Warp* each = first; each != first + kWarpgroupWarps; ++each) {
      if (each == thread.warp) continue;
      each->wait = wait;
      each->parked = true;
      each->ready = 0;
    }
    park_warp(thread, wait);
    return;
  }
  free_registers_ -= more;
  group.registers = registers;
  note_progress();
  for (size_t i = 0; i < meetings_.size(); ++i) {
    Meeting& waiting = meetings_[i];
    const int lacks = waiting.wanted_registers - waiting.registers;
    if (waiting.wanted_registers == 0 || lacks > free_registers_) continue;
    free_registers_ -= lacks;
    waiting.registers = waiting.wanted_registers;
    waiting.wanted_registers = 0;
    for (int w = 0; w < kWarpgroupWarps; ++w) {
      wake_warp(warps_[i * kWarpgroupWarps + static_cast<size_t>(w)]);
    }
  }
}

}  // namespace fa::simt

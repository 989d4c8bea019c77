#include "common/simt/hazard_log.hpp"

#include <cstring>

namespace fa::simt {

const char* hazard_name(HazardKind kind) {
  switch (kind) {
    case HazardKind::kReadBeforeWait:
      return "read_before_wait";
    case HazardKind::kReadBeforeBarrier:
      return "read_before_barrier";
    case HazardKind::kOverwriteWhileRead:
      return "overwrite_while_read";
    case HazardKind::kWriteWrite:
      return "write_write";
    case HazardKind::kUninitializedRead:
      return "uninitialized_read";
    case HazardKind::kOutOfBounds:
      return "out_of_bounds";
    case HazardKind::kMisaligned:
      return "misaligned";
    case HazardKind::kBarrierDivergence:
      return "barrier_divergence";
    case HazardKind::kDeadlock:
      return "deadlock";
    case HazardKind::kGlobalRace:
      return "global_race";
    case HazardKind::kMissingProxyFence:
      return "missing_proxy_fence";
    case HazardKind::kWaitWrongPhase:
      return "wait_wrong_phase";
    case HazardKind::kTransactionMismatch:
      return "transaction_mismatch";
    case HazardKind::kRegistersInFlight:
      return "registers_in_flight";
    case HazardKind::kDivisionByZero:
      return "division_by_zero";
    case HazardKind::kClusterRace:
      return "cluster_race";
    case HazardKind::kInactiveLane:
      return "inactive_lane";
    case HazardKind::kSameValueStore:
      return "same_value_store";
    case HazardKind::kBadDescriptor:
      return "bad_descriptor";
  }
  return "?";
}

const char* relative_path(const char* file) {
  if (paths_as_given) return file;
  const char* root = FA_SIMT_SOURCE_ROOT;  // ends with a slash
  const size_t length = std::strlen(root);
  if (std::strncmp(file, root, length) == 0) return file + length;
  while (std::strncmp(file, "../", 3) == 0) file += 3;  // ccache makes paths relative to the build
  return file;
}

std::string to_string(const Site& site) {
  return std::string(relative_path(site.file)) + ":" + std::to_string(site.line);
}

HazardLog::Key HazardLog::key(HazardKind kind, const Site& where) {
  return {kind, relative_path(where.file), where.line};
}

bool HazardLog::is_new(HazardKind kind, const Site& where, int block) const {
  const auto found = found_.find(key(kind, where));
  return found == found_.end() || block < found->second.block;
}

void HazardLog::add(Hazard hazard) {
  auto [found, inserted] = found_.try_emplace(key(hazard.kind, hazard.where), hazard);
  if (inserted) return;
  const int64_t count = found->second.count + hazard.count;
  if (hazard.block < found->second.block) found->second = std::move(hazard);
  found->second.count = count;
}

void HazardLog::merge(const HazardLog& other) {
  for (const auto& entry : other.found_) add(entry.second);
}

std::vector<Hazard> HazardLog::hazards() const {
  std::vector<Hazard> result;
  for (const auto& [key, found] : found_) {
    Hazard hazard = found;
    hazard.text = to_string(hazard.where) + ": " + hazard_name(hazard.kind) + ": " + hazard.text;
    hazard.where.file = relative_path(hazard.where.file);
    hazard.other.file = relative_path(hazard.other.file);
    result.push_back(std::move(hazard));
  }
  return result;
}

}  // namespace fa::simt

#include "common/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace fa {
namespace {

// The least number in files of this name, from the directory of a cgroup up to the mount's root. A
// container sees its own cgroup as the root, often under a path that does not exist in it.
double least_limit(const std::string& mount, std::string cgroup, const char* file, double least) {
  for (;;) {
    double limit;  // "max", no limit in version 2, is no number
    if (std::ifstream(mount + cgroup + "/" + file) >> limit) least = std::min(least, limit);
    if (cgroup.empty()) return least;
    const size_t slash = cgroup.rfind('/');
    cgroup.resize(slash == std::string::npos ? 0 : slash);
  }
}

std::atomic<MemoryProbe*> probe_in_force = nullptr;

}  // namespace

double memory_bytes(const std::string& root) {
  double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream cgroups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {  // "4:memory:/path", version 2: "0::/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string cgroup = line.substr(second + 1);
    if (controllers == ",,") bytes = least_limit(mount, cgroup, "memory.max", bytes);
    if (controllers.find(",memory,") != std::string::npos) {
      bytes = least_limit(mount + "/memory", cgroup, "memory.limit_in_bytes", bytes);
    }
  }
  return bytes;
}

MemoryProbe::MemoryProbe(int64_t limit_bytes) : limit_(limit_bytes) {
  MemoryProbe* none = nullptr;
  if (!probe_in_force.compare_exchange_strong(none, this)) {
    throw std::logic_error("a MemoryProbe is in force already");
  }
}

MemoryProbe::~MemoryProbe() { probe_in_force = nullptr; }

void MemoryProbe::on_allocate(int64_t bytes) {
  MemoryProbe* const probe = probe_in_force;
  if (!probe) return;
  const int64_t current = probe->current_ += bytes;
  if (current > probe->limit_) {
    probe->current_ -= bytes;
    throw MemoryLimitExceeded("needs " + format_bytes(static_cast<double>(current)) +
                              ", the limit is " + format_bytes(static_cast<double>(probe->limit_)));
  }
  int64_t peak = probe->peak_;
  while (current > peak && !probe->peak_.compare_exchange_weak(peak, current)) {
  }
}

void MemoryProbe::on_free(int64_t bytes) {
  if (MemoryProbe* const probe = probe_in_force) probe->current_ -= bytes;
}

std::string format_bytes(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  const int decimals = unit == 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f %s", decimals, bytes, units[unit]);
  return text;
}

}  // namespace fa

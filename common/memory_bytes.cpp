// Implements memory_bytes of memory.hpp from Linux's information about the machine and the
// container.

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "common/memory.hpp"

namespace fa {
namespace {

// Returns the smallest number in files of this name, from the directory of a cgroup up to the root
// of the mount. A container sees its own cgroup as the root, often under a path that does not exist
// in it.
double least_limit(const std::string& mount, std::string cgroup, const char* file, double least) {
  for (;;) {
    double limit;  // "max" means no limit in version 2 and is not a number
    if (std::ifstream(mount + cgroup + "/" + file) >> limit) least = std::min(least, limit);
    if (cgroup.empty()) return least;
    const size_t slash = cgroup.rfind('/');
    cgroup.resize(slash == std::string::npos ? 0 : slash);
  }
}

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

}  // namespace fa

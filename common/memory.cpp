#include "common/memory.hpp"
#include "common/text.hpp"

namespace fa {
namespace {

std::atomic<MemoryProbe*> probe_in_force = nullptr;

}  // namespace

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
  const int decimals = unit == 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return text("%.*f %s", decimals, bytes, units[unit]);
}

}  // namespace fa

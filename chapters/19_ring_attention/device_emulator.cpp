// The ring's kernels on the emulator, which finishes every launch immediately.

#include <chrono>
#include <cstring>

#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "common/simt/simt.hpp"

namespace emulator::ch19 {

class Event;
class Stream {
 public:
  explicit Stream(bool) {}
  void wait(const Event&) {}
  void synchronize() {}
};
class Event {
 public:
  void record(Stream&) {
    time_ = std::chrono::steady_clock::now();
    recorded_ = true;
  }
  bool recorded() const { return recorded_; }
  double ms_until(const Event& later) const {
    return std::chrono::duration<double, std::milli>(later.time_ - time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
  bool recorded_ = false;
};
inline void upload(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
inline void download(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace emulator::ch19

#include "device_ring.hpp"

namespace ch19 {

DeviceResult forward_on_emulator(Transport& transport, Schedule schedule, int repetitions,
                                 const Sizes& sizes, const Part& q, const Part& k, const Part& v) {
  DeviceResult result;
  fa::simt::Config config;
  config.counters = false;
  config.threads = 1;  // each rank is already a thread
  const fa::simt::Report report = fa::simt::run(config, [&] {
    emulator::ch19::HostLink link(transport);
    emulator::ch19::Rank rank(transport, schedule, sizes, ::ch09::KERNEL, *::ch09::KERNEL.emulator);
    result = emulator::ch19::repeated(rank, transport, link, repetitions, q, k, v);
  });
  if (!report.hazards.empty()) throw std::runtime_error(report.hazards.front().text);
  return result;
}

}  // namespace ch19

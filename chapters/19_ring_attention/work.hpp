#pragma once
// From a whole problem to the parts of the ranks, and back.

#include <cstdint>
#include <span>
#include <vector>

#include "common/problem.hpp"
#include "device_forward.hpp"
#include "ring.hpp"
#include "transport.hpp"

namespace ch19 {

enum class Device { cpu, gpu, emulator };

// What all ranks are to do: as bytes, it can be sent.
struct Job {
  Schedule schedule;
  uint32_t breaks;
  bool backward;
  Sizes sizes;                  // the heads of all batches are heads of one
  Device device = Device::cpu;  // else in bf16, and forward only
  Link link = Link::host;
  int repetitions = 1;  // of what is timed on a GPU
};
Job job_of(const fa::Problem& problem, Schedule schedule, uint32_t breaks, bool backward);

// What a rank did: a step for the keys of each rank; none backward if that was not asked for.
struct Report {
  int64_t bytes_sent = 0;  // K, V, dK and dV; not what rank 0 hands out and takes back
  double forward_ms = 0;
  std::vector<Step> forward, backward;
};

// Every rank calls it. Rank 0 has the problem, hands out its parts, and puts O and LSE, and with
// `backward` dQ, dK and dV, together in `outputs`, which have their sizes. Others have neither.
Report work(Transport& transport, const Job& job, const fa::Problem* problem,
            std::span<std::vector<float>> outputs);

// The ranks of a run, as the first of them sees them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int count() const = 0;
  virtual const char* transport() const = 0;  // "threads" or "mpi"
  // Reports of all ranks, in their order.
  virtual std::vector<Report> run(const Job& job, const fa::Problem& problem,
                                  std::span<std::vector<float>> outputs) = 0;
};

}  // namespace ch19

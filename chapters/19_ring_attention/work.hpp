#pragma once
// Distributes a whole problem to the ranks, and collects the results.

#include <cstdint>
#include <vector>

#include "common/kernels/kernel.hpp"
#include "common/problem.hpp"
#include "device_forward.hpp"
#include "ring.hpp"
#include "transport.hpp"

namespace ch19 {

enum class Device { cpu, gpu, emulator };

// The work of all ranks, as plain bytes that can be sent.
struct Job {
  Schedule schedule;
  uint32_t breaks;
  bool backward;
  Sizes sizes;                  // batches are counted as heads
  Device device = Device::cpu;  // on other devices in bf16
  Link link = Link::host;
  int repetitions = 1;           // number of timed runs on a GPU
  bool hopper_backward = false;  // on other devices: chapter 22's backward pass, or chapter 10's
};
// The kernels of the backward pass on a GPU or the emulator.
const fa::Kernel& backward_chapter(const Job& job);
Job job_of(const fa::Problem& problem, Schedule schedule, uint32_t breaks, bool backward);

// Report of a rank, with one step for the keys of each rank; `backward` is empty if it was not
// requested.
struct Report {
  int64_t bytes_sent = 0;  // K, V, dK and dV, excluding distribution and collection by rank 0
  double forward_ms = 0;
  std::vector<Step> forward, backward;
};

// Every rank calls it. Rank 0 has the tensors. It distributes the parts of the inputs and collects
// O and LSE (with `backward`, dQ, dK and dV), which have their sizes. Other ranks pass null.
Report work(Transport& transport, const Job& job, fa::Tensors* tensors);

// The ranks of a run, as rank 0 sees them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int count() const = 0;
  virtual const char* transport() const = 0;  // "threads" or "mpi"
  // Returns the reports of all ranks, in order.
  virtual std::vector<Report> run(const Job& job, fa::Tensors& tensors) = 0;
};

}  // namespace ch19

#pragma once
// The ring with kernels, where each rank has a GPU, or an emulated one.

#include "ring.hpp"

namespace ch19 {

// The way keys take from one GPU to the next.
enum class Link {
  nccl,  // directly, on a separate stream
  host,  // to the host, through the ranks' transport, and to the next GPU
};

// The time of an event on a rank, in milliseconds since the rank began.
struct Interval {
  double begin_ms = 0, end_ms = 0;
};
// A rank's work on the keys of one rank, and the transfer of the next keys.
struct DeviceStep {
  int owner;
  int64_t scores;
  Interval compute, transfer;  // transfer is when the next step's keys move
};

// The result of the repetition with the median time.
struct DeviceResult {
  State state;
  int64_t bytes_sent = 0;
  double ms = 0;  // from the first kernel to the last
  std::vector<DeviceStep> steps;
};

// forward() of ring.hpp in bf16, with O and LSE in fp32 between steps, `repetitions` times. Every
// rank calls it. Throws InputError for sizes that the kernels do not support, and if there is no
// GPU or no NCCL.
DeviceResult forward_on_gpu(Transport& transport, Schedule schedule, Link link, int repetitions,
                            const Sizes& sizes, const Part& q, const Part& k, const Part& v);
DeviceResult forward_on_emulator(Transport& transport, Schedule schedule, int repetitions,
                                 const Sizes& sizes, const Part& q, const Part& k, const Part& v);

// Returns the number of GPUs of this machine that can run the kernels.
int usable_gpus();
bool has_nccl();  // in this build

}  // namespace ch19

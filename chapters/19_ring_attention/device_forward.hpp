#pragma once
// The ring where kernels run: each rank has a GPU, or the emulator of one.

#include "ring.hpp"

namespace ch19 {

// How keys get from one GPU to the next.
enum class Link {
  nccl,  // directly, on a stream of their own
  host,  // down to the host, through the ranks' transport, and up again
};

// When something happened on a rank, in milliseconds since it began.
struct Interval {
  double begin_ms = 0, end_ms = 0;
};
// What a rank did with the keys of one rank, and how these came.
struct DeviceStep {
  int owner;
  int64_t scores;
  Interval compute, transfer;  // transfer: of the keys of the next step
};

// Of the repetition of median length.
struct DeviceResult {
  State state;
  int64_t bytes_sent = 0;
  double ms = 0;  // from the first kernel to the last
  std::vector<DeviceStep> steps;
};

// forward() of ring.hpp in bf16, with O and LSE in fp32 from step to step, `repetitions` times.
// Every rank calls it. Throws InputError for what the kernels do not take, and for a GPU, or an
// NCCL, that is not there.
DeviceResult forward_on_gpu(Transport& transport, Schedule schedule, Link link, int repetitions,
                            const Sizes& sizes, const Part& q, const Part& k, const Part& v);
DeviceResult forward_on_emulator(Transport& transport, Schedule schedule, int repetitions,
                                 const Sizes& sizes, const Part& q, const Part& k, const Part& v);

// Of this machine; 0 if none can run the kernels.
int usable_gpus();
bool has_nccl();  // this build

}  // namespace ch19

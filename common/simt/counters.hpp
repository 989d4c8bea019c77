#pragma once
// Counters of a run, under the names that --json and --profile use.

#include <cstdint>
#include <string>

namespace fa::simt {

/// The counts that Nsight Compute would report, summed over all warps of all launches of a run.
/// Instructions are counted per warp. A wavefront is one pass over 32 banks of 4 bytes, and a
/// sector has 32 bytes. "Ideal" is the smallest number that could have moved the same bytes.
struct Counters {
  int64_t ldmatrix_instructions = 0;
  int64_t mma_instructions = 0;
  int64_t cp_async_instructions = 0;
  int64_t shuffle_instructions = 0;
  int64_t barriers = 0;
  int64_t shared_load_wavefronts = 0;  // ldmatrix and load_shared
  int64_t shared_load_wavefronts_ideal = 0;
  int64_t shared_store_wavefronts = 0;  // cp.async and store_shared
  int64_t shared_store_wavefronts_ideal = 0;
  int64_t global_load_sectors = 0;  // cp.async and load_global
  int64_t global_load_sectors_ideal = 0;
  int64_t global_store_sectors = 0;
  int64_t global_store_sectors_ideal = 0;
  int64_t global_atomics = 0;  // atomic_add
  // The passes of atomic operations. Only CUDA files count them.
  int64_t global_atomic_sectors = 0;
  int64_t global_atomic_sectors_ideal = 0;
  int64_t shared_atomic_wavefronts = 0;
  int64_t shared_atomic_wavefronts_ideal = 0;
  int64_t shared_bytes_per_block = 0;  // maximum over the launches
  int64_t wgmma_instructions = 0;      // four per wgmma of a warpgroup
  int64_t tma_instructions = 0;        // bulk tensor loads and stores
  int64_t tma_bytes = 0;               // whole boxes, including bytes outside the tensor
  int64_t tma_bytes_outside = 0;       // the part of tma_bytes outside the tensor; for comparing
                                       // two runs
  int64_t mbarrier_operations = 0;  // init, arrive, inval, and each wait once, however many times
                                    // it polls

  /// Bit i is set if kCounterFields[i] includes a part whose rule no hardware has confirmed yet.
  uint32_t estimates = 0;

  Counters& operator+=(const Counters& other);
};

/// Name (the key in --json) and member of each counter, in the order of printing.
struct CounterField {
  const char* name;
  int64_t Counters::*value;
  bool rare = false;        // belongs to instructions that only some chapters use
  bool cuda_files = false;  // counted with Config::cuda_rules only
};
inline constexpr CounterField kCounterFields[] = {
    {"ldmatrix_instructions", &Counters::ldmatrix_instructions},
    {"mma_instructions", &Counters::mma_instructions},
    {"cp_async_instructions", &Counters::cp_async_instructions},
    {"shuffle_instructions", &Counters::shuffle_instructions},
    {"barriers", &Counters::barriers},
    {"shared_load_wavefronts", &Counters::shared_load_wavefronts},
    {"shared_load_wavefronts_ideal", &Counters::shared_load_wavefronts_ideal},
    {"shared_store_wavefronts", &Counters::shared_store_wavefronts},
    {"shared_store_wavefronts_ideal", &Counters::shared_store_wavefronts_ideal},
    {"global_load_sectors", &Counters::global_load_sectors},
    {"global_load_sectors_ideal", &Counters::global_load_sectors_ideal},
    {"global_store_sectors", &Counters::global_store_sectors},
    {"global_store_sectors_ideal", &Counters::global_store_sectors_ideal},
    {"global_atomics", &Counters::global_atomics, true},
    {"global_atomic_sectors", &Counters::global_atomic_sectors, true, true},
    {"global_atomic_sectors_ideal", &Counters::global_atomic_sectors_ideal, true, true},
    {"shared_atomic_wavefronts", &Counters::shared_atomic_wavefronts, true, true},
    {"shared_atomic_wavefronts_ideal", &Counters::shared_atomic_wavefronts_ideal, true, true},
    {"shared_bytes_per_block", &Counters::shared_bytes_per_block},
    {"wgmma_instructions", &Counters::wgmma_instructions, true},
    {"tma_instructions", &Counters::tma_instructions, true},
    {"tma_bytes", &Counters::tma_bytes, true},
    {"mbarrier_operations", &Counters::mbarrier_operations, true},
};

/// True if the counter with this name includes an estimate (see Counters::estimates).
bool is_estimate(const Counters& counters, const std::string& name);

}  // namespace fa::simt

// Hopper's instructions for the device code of a CUDA file, with mbarriers, tensor copies, wgmma,
// clusters. See device_calls.cpp.

#include <cstdint>
#include <initializer_list>
#include <string>

#include "common/cuda/runtime.hpp"
#include "common/cuda/window.hpp"
#include "common/simt/block.hpp"
#include "common/simt/hopper.hpp"
#include "common/simt/lanes.hpp"

namespace emucuda {

namespace {

using emulator::TensorMap;

// A box of `rank` coordinates, as the list that the emulator's functions take.
template <class F>
void with_coordinates(const int* at, int rank, F f) {
  switch (rank) {
    case 1:
      return f({at[0]});
    case 2:
      return f({at[0], at[1]});
    case 3:
      return f({at[0], at[1], at[2]});
    case 4:
      return f({at[0], at[1], at[2], at[3]});
    default:
      return f({at[0], at[1], at[2], at[3], at[4]});
  }
}

TensorMap decode(const void* map, int line, const char* file) {
  const fa::TensorBox* box = tensor_box(map);
  if (box == nullptr) {
    throw KernelStop{cudaErrorLaunchFailure,
                     std::string(file) + ":" + std::to_string(line) +
                         ": the tensor map is not one that cuTensorMapEncodeTiled has written"};
  }
  return {*box};
}

const fa::Dim3& place() { return fa::simt::current_thread().block->place(); }
const fa::LaunchConfig& config() { return fa::simt::current_thread().block->launch().config; }

}  // namespace

}  // namespace emucuda

using namespace emucuda;

#define PLACE int line, const char *file

extern "C" {

// ---- mbarriers ----

void emucuda_mbarrier_init(uint32_t at, int count, PLACE) {
  emulator::mbarrier_init(at, count, line, file);
}
void emucuda_mbarrier_inval(uint32_t at, PLACE) { emulator::mbarrier_inval(at, line, file); }
void emucuda_mbarrier_arrive(uint32_t at, int count, PLACE) {
  for (int i = 0; i < count; ++i) emulator::mbarrier_arrive(at, line, file);
}
void emucuda_mbarrier_expect_tx(uint32_t at, uint32_t bytes, PLACE) {
  emulator::mbarrier_expect_tx(at, bytes, line, file);
}
void emucuda_mbarrier_arrive_expect_tx(uint32_t at, uint32_t bytes, PLACE) {
  emulator::mbarrier_arrive_expect_tx(at, bytes, line, file);
}
int emucuda_mbarrier_try_wait(uint32_t at, int parity, PLACE) {
  return emulator::mbarrier_try_wait(at, parity, line, file);
}
void emucuda_mbarrier_wait(uint32_t at, int parity, PLACE) {
  emulator::mbarrier_wait(at, parity, line, file);
}
// Returns the parity of the current phase, which serves as the state of an arrival here.
int emucuda_mbarrier_phase(uint32_t at, PLACE) {
  return emulator::mbarrier_try_wait(at, 0, line, file) ? 1 : 0;
}
// Arrives when the thread's copies so far have landed. The emulator waits for them here.
void emucuda_cp_async_mbarrier_arrive(uint32_t at, PLACE) {
  emulator::cp_async_commit(line, file);
  emulator::detail::cp_async_wait(0, "", line, file);
  emulator::mbarrier_arrive(at, line, file);
}
void emucuda_fence_mbarrier_init(PLACE) { emulator::fence_mbarrier_init(line, file); }
void emucuda_fence_proxy_async(PLACE) { emulator::fence_proxy_async(line, file); }
void emucuda_fence_proxy_async_global(PLACE) { emulator::fence_proxy_async_global(line, file); }

// ---- bulk copies ----

// `blocks` is a mask of the cluster's blocks, or 0 for the block that `mbarrier` names
void emucuda_tma_load(uint32_t to, const void* map, const int* at, int rank, uint32_t mbarrier,
                      uint32_t blocks, PLACE) {
  const TensorMap tensor = decode(map, line, file);
  with_coordinates(at, rank, [&](std::initializer_list<int> list) {
    emulator::lanes::tma_load(to, tensor, list, mbarrier, blocks, {file, line});
  });
}
void emucuda_tma_store(const void* map, const int* at, int rank, uint32_t from, PLACE) {
  const TensorMap tensor = decode(map, line, file);
  note_all_written(tensor.box.data);
  with_coordinates(at, rank, [&](std::initializer_list<int> list) {
    emulator::detail::tma_store(tensor, list, from, line, file);
  });
}
void emucuda_bulk_load(uint32_t to, const void* from, uint32_t bytes, uint32_t mbarrier,
                       uint32_t blocks, PLACE) {
  emulator::lanes::bulk_load(to, from, bytes, mbarrier, blocks, {file, line});
}
void emucuda_bulk_copy(uint32_t to, uint32_t from, uint32_t bytes, uint32_t mbarrier, PLACE) {
  emulator::lanes::bulk_copy(to, from, bytes, mbarrier, {file, line});
}
void emucuda_bulk_store(void* to, uint32_t from, uint32_t bytes, PLACE) {
  note_written(to, bytes, nullptr);
  emulator::lanes::bulk_store(to, from, bytes, {file, line});
}
void emucuda_bulk_reduce_add(void* to, uint32_t from, uint32_t bytes, PLACE) {
  note_written(to, bytes, nullptr);
  emulator::bulk_reduce_add(static_cast<float*>(to), from, bytes, line, file);
}
void emucuda_bulk_commit_group(PLACE) { emulator::tma_store_commit(line, file); }
void emucuda_bulk_wait_group(int pending, int read, PLACE) {
  emulator::detail::tma_store_wait(pending, read != 0, line, file);
}
void emucuda_stmatrix_x4(uint32_t to, const uint32_t (&registers)[4], PLACE) {
  emulator::stmatrix_x4(to, registers, line, file);
}

// ---- wgmma ----

// `kind` has the type, and whether A and B are MN-major.
void emucuda_wgmma(float* d, int n, uint32_t* a, uint64_t descriptor_a, uint64_t descriptor_b,
                   int accumulate, int kind, int neighbours, PLACE) {
  if (!neighbours) {
    throw KernelStop{cudaErrorLaunchFailure,
                     std::string(file) + ":" + std::to_string(line) +
                         ": the registers of a wgmma must be one array here, in its order"};
  }
  constexpr emulator::WgmmaType kTypes[] = {emulator::WgmmaType::bf16, emulator::WgmmaType::fp16,
                                            emulator::WgmmaType::e4m3};
  emulator::detail::wgmma(d, n, a, descriptor_a, descriptor_b, accumulate != 0, (kind & 4) != 0,
                          (kind & 8) != 0, kTypes[kind & 3], line, file);
}
void emucuda_wgmma_fence(PLACE) { emulator::wgmma_fence(line, file); }
void emucuda_wgmma_commit_group(PLACE) { emulator::wgmma_commit(line, file); }
void emucuda_wgmma_wait_group(int pending, PLACE) {
  emulator::detail::wgmma_wait(pending, {}, line, file);
}

// ---- roles and clusters ----

void emucuda_setmaxnreg(int more, int registers, PLACE) {
  emulator::detail::setmaxnreg(more != 0, registers, line, file);
}
int emucuda_elect_sync(PLACE) { return emulator::elect_one(line, file); }
int emucuda_barrier_red_or(int barrier, int threads, int condition, PLACE) {
  return emulator::barrier_red_or(barrier, threads, condition != 0, line, file);
}
void emucuda_barrier_arrive(int barrier, int threads, PLACE) {
  emulator::barrier_arrive(barrier, threads, line, file);
}
void emucuda_cluster_sync(PLACE) { emulator::cluster_sync(line, file); }
// The emulator waits where the program waits.
void emucuda_barrier_cluster_arrive(PLACE) { (void)line, (void)file; }
void emucuda_barrier_cluster_arrive_relaxed(PLACE) { (void)line, (void)file; }
void emucuda_barrier_cluster_wait(PLACE) { emulator::cluster_sync(line, file); }

void* emucuda_mapa(const void* p, int rank, PLACE) {
  (void)line, (void)file;
  const auto address = static_cast<uint32_t>(reinterpret_cast<uint64_t>(p));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): not an address of this machine
  return reinterpret_cast<void*>(kSharedWindow + emulator::lanes::cluster_address(address, rank));
}
int emucuda_getctarank(const void* p, PLACE) {
  (void)line, (void)file;
  return emulator::lanes::cluster_rank_of(static_cast<uint32_t>(reinterpret_cast<uint64_t>(p)));
}

#define EMUCUDA_PLACE(name, value)          \
  int emucuda_read_ptx_sreg_##name(PLACE) { \
    (void)line, (void)file;                 \
    return value;                           \
  }
#define EMUCUDA_PLACES(x)                                          \
  EMUCUDA_PLACE(cluster_ctaid_##x, place().x % config().cluster.x) \
  EMUCUDA_PLACE(cluster_nctaid_##x, config().cluster.x)            \
  EMUCUDA_PLACE(clusterid_##x, place().x / config().cluster.x)     \
  EMUCUDA_PLACE(nclusterid_##x, config().grid.x / config().cluster.x)
EMUCUDA_PLACES(x)
EMUCUDA_PLACES(y)
EMUCUDA_PLACES(z)
EMUCUDA_PLACE(cluster_ctarank, emulator::cluster_rank())
EMUCUDA_PLACE(cluster_nctarank, emulator::cluster_size())
#undef EMUCUDA_PLACES
#undef EMUCUDA_PLACE

}  // extern "C"

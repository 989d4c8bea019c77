#pragma once
// Hopper's additional instructions for kernels on a GPU, as PTX. common/simt/hopper.hpp declares
// and documents the same functions for the emulator. They need machine code for sm_90a, so a build
// for other cards must not call them.

#include <cuda.h>

#include <initializer_list>

#include "common/gpu/launch.hpp"
#include "common/tensor_map.hpp"

// Source position of a call, which only the emulator uses.
#define FA_SITE int = 0, const char* = nullptr

namespace gpu {

using fa::Swizzle;

// ---- mbarriers

FA_DEVICE void mbarrier_init(uint32_t mbarrier, int arrivals, FA_SITE) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(arrivals) : "memory");
}
FA_DEVICE void fence_mbarrier_init(FA_SITE) {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
FA_DEVICE void mbarrier_inval(uint32_t mbarrier, FA_SITE) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(mbarrier) : "memory");
}
FA_DEVICE void mbarrier_arrive(uint32_t mbarrier, FA_SITE) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}
FA_DEVICE void mbarrier_expect_tx(uint32_t mbarrier, uint32_t bytes, FA_SITE) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(mbarrier),
               "r"(bytes)
               : "memory");
}
FA_DEVICE void mbarrier_arrive_expect_tx(uint32_t mbarrier, uint32_t bytes, FA_SITE) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes)
               : "memory");
}
FA_DEVICE bool mbarrier_try_wait(uint32_t mbarrier, int parity, FA_SITE) {
  uint32_t complete;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(complete)
      : "r"(mbarrier), "r"(parity)
      : "memory");
  return complete != 0;
}
FA_DEVICE void mbarrier_wait(uint32_t mbarrier, int parity, FA_SITE) {
  while (!mbarrier_try_wait(mbarrier, parity)) {
  }
}
FA_DEVICE void mbarrier_wait(uint32_t mbarrier, int parity, const char*, FA_SITE) {
  mbarrier_wait(mbarrier, parity);
}

FA_DEVICE void fence_proxy_async(FA_SITE) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
FA_DEVICE void fence_proxy_async_global(FA_SITE) {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// ---- Storing matrices in shared memory

FA_DEVICE void stmatrix_x4(uint32_t addr, const uint32_t (&r)[4], FA_SITE) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(addr),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- Tensor copies

// A kernel takes it as `FA_GRID_CONSTANT const TensorMap map`, because PTX needs its address.
struct TensorMap {
  CUtensorMap map;
};

// Returns the driver's function. It is looked up at run time, so that the program need not link the
// driver's library.
inline auto encode_tensor_map() {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    FA_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                   cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) {
      throw fa::InputError("this driver has no tensor maps: update it");
    }
    return reinterpret_cast<Encode>(found);
  }();
  return encode;
}

template <class T>
TensorMap make_tensor_map(const T* data, std::initializer_list<int64_t> sizes,
                          std::initializer_list<int64_t> strides, std::initializer_list<int> box,
                          Swizzle swizzle) {
  const fa::TensorBox checked = fa::make_tensor_box(data, sizeof(T), sizes, strides, box, swizzle);
  constexpr CUtensorMapDataType TYPE =
      std::is_same_v<T, fa::bf16>   ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
      : std::is_same_v<T, fa::fp16> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
      : std::is_same_v<T, float>    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
      : sizeof(T) == 2              ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                    : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static_assert(std::is_same_v<T, float> || sizeof(T) <= 2, "16 bits, fp32, or bytes");
  constexpr CUtensorMapSwizzle SWIZZLES[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                             CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};
  cuuint64_t size[fa::TensorBox::kMaxRank], stride[fa::TensorBox::kMaxRank] = {};
  cuuint32_t boxes[fa::TensorBox::kMaxRank], each[fa::TensorBox::kMaxRank];
  for (int i = 0; i < checked.rank; ++i) {
    size[i] = static_cast<cuuint64_t>(checked.sizes[i]);
    if (i > 0) stride[i - 1] = static_cast<cuuint64_t>(checked.strides[i]);
    boxes[i] = static_cast<cuuint32_t>(checked.box[i]);
    each[i] = 1;
  }
  TensorMap result;
  const CUresult code = encode_tensor_map()(
      &result.map, TYPE, static_cast<cuuint32_t>(checked.rank), const_cast<T*>(data), size, stride,
      boxes, each, CU_TENSOR_MAP_INTERLEAVE_NONE, SWIZZLES[static_cast<int>(swizzle)],
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    throw fa::InputError("tensor map: the driver refuses it, error " +
                         std::to_string(static_cast<int>(code)));
  }
  return result;
}

#define FA_TMA_LOAD(rank, coordinates, bar)                                                     \
  asm volatile("cp.async.bulk.tensor." rank                                                 \
               "d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" coordinates \
               "}], [" bar "];"
FA_DEVICE void tma_load_1d(uint32_t dst, const TensorMap& map, int x, uint32_t mbarrier, FA_SITE) {
  FA_TMA_LOAD("1", "%2", "%3")
      ::"r"(dst), "l"(&map), "r"(x), "r"(mbarrier) : "memory");
}
FA_DEVICE void tma_load_2d(uint32_t dst, const TensorMap& map, int x, int y, uint32_t mbarrier,
                           FA_SITE) {
  FA_TMA_LOAD("2", "%2, %3", "%4")
      ::"r"(dst), "l"(&map), "r"(x), "r"(y), "r"(mbarrier) : "memory");
}
FA_DEVICE void tma_load_3d(uint32_t dst, const TensorMap& map, int x, int y, int z,
                           uint32_t mbarrier, FA_SITE) {
  FA_TMA_LOAD("3", "%2, %3, %4", "%5")
      ::"r"(dst), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(mbarrier) : "memory");
}
FA_DEVICE void tma_load_4d(uint32_t dst, const TensorMap& map, int x, int y, int z, int w,
                           uint32_t mbarrier, FA_SITE) {
  FA_TMA_LOAD("4", "%2, %3, %4, %5", "%6")
      ::"r"(dst), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(mbarrier) : "memory");
}
FA_DEVICE void tma_load_5d(uint32_t dst, const TensorMap& map, int x, int y, int z, int w, int v,
                           uint32_t mbarrier, FA_SITE) {
  FA_TMA_LOAD("5", "%2, %3, %4, %5, %6", "%7")
      ::"r"(dst), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "r"(mbarrier) : "memory");
}
#undef FA_TMA_LOAD

#define FA_TMA_STORE(rank, coordinates)                                              \
  asm volatile("cp.async.bulk.tensor." rank "d.global.shared::cta.bulk_group [%1, {" \
               coordinates "}], [%0];"
FA_DEVICE void tma_store_1d(const TensorMap& map, int x, uint32_t src, FA_SITE) {
  FA_TMA_STORE("1", "%2") ::"r"(src), "l"(&map), "r"(x) : "memory");
}
FA_DEVICE void tma_store_2d(const TensorMap& map, int x, int y, uint32_t src, FA_SITE) {
  FA_TMA_STORE("2", "%2, %3") ::"r"(src), "l"(&map), "r"(x), "r"(y) : "memory");
}
FA_DEVICE void tma_store_3d(const TensorMap& map, int x, int y, int z, uint32_t src, FA_SITE) {
  FA_TMA_STORE("3", "%2, %3, %4") ::"r"(src), "l"(&map), "r"(x), "r"(y), "r"(z) : "memory");
}
FA_DEVICE void tma_store_4d(const TensorMap& map, int x, int y, int z, int w, uint32_t src,
                            FA_SITE) {
  FA_TMA_STORE("4", "%2, %3, %4, %5")
      ::"r"(src), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
FA_DEVICE void tma_store_5d(const TensorMap& map, int x, int y, int z, int w, int v, uint32_t src,
                            FA_SITE) {
  FA_TMA_STORE("5", "%2, %3, %4, %5, %6")
      ::"r"(src), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v) : "memory");
}
#undef FA_TMA_STORE

// EVICT_LAST keeps a line of the L2 cache that will soon be added to again.
FA_DEVICE void bulk_reduce_add(float* dst, uint32_t src, uint32_t bytes, FA_SITE) {
  constexpr uint64_t EVICT_LAST = 0x14f0000000000000;
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%0], [%1], %2, "
      "%3;" ::"l"(__cvta_generic_to_global(dst)),
      "r"(src), "r"(bytes), "l"(EVICT_LAST)
      : "memory");
}

FA_DEVICE void tma_store_commit(FA_SITE) {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int N>
FA_DEVICE void tma_store_wait_read(FA_SITE) {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N>
FA_DEVICE void tma_store_wait(FA_SITE) {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// ---- Roles

template <int REGISTERS>
FA_DEVICE void setmaxnreg_inc(FA_SITE) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
FA_DEVICE void setmaxnreg_dec(FA_SITE) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

FA_DEVICE bool elect_one(FA_SITE) {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

FA_DEVICE bool barrier_red_or(int barrier, int threads, bool condition, FA_SITE) {
  uint32_t any;
  asm volatile(
      "{\n"
      ".reg .pred p, q;\n"
      "setp.ne.u32 p, %3, 0;\n"
      "barrier.red.or.pred.aligned q, %1, %2, p;\n"
      "selp.u32 %0, 1, 0, q;\n"
      "}"
      : "=r"(any)
      : "r"(barrier), "r"(threads), "r"(static_cast<uint32_t>(condition))
      : "memory");
  return any != 0;
}

// ---- Clusters

FA_DEVICE int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
FA_DEVICE int cluster_size() {
  int size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

FA_DEVICE void cluster_sync(FA_SITE) {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
FA_DEVICE void cluster_sync(const char*, FA_SITE) {  // with a label for the emulator
  cluster_sync();
}

}  // namespace gpu

#undef FA_SITE

#include "common/gpu/wgmma.hpp"

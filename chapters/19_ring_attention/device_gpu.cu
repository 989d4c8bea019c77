// The ring's kernels on GPUs, one per rank. Keys are transferred by NCCL or through the host.

#include <cuda_runtime.h>
#if FA_NCCL
#include <nccl.h>
#endif

#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "chapters/16_maximum_on_demand/chapter.hpp"
#include "common/backend.hpp"
#include "common/gpu/runtime.hpp"

namespace gpu::ch19 {

class Event {
 public:
  Event() { FA_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  template <class Stream>
  void record(Stream& stream) {
    FA_CUDA_CHECK(cudaEventRecord(event_, stream.get()));
    recorded_ = true;
  }
  bool recorded() const { return recorded_; }
  double ms_until(const Event& later) const {
    float ms = 0;
    FA_CUDA_CHECK(cudaEventElapsedTime(&ms, event_, later.event_));
    return ms;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
  bool recorded_ = false;
};

// A stream, one of which runs this thread's kernels.
class Stream {
 public:
  explicit Stream(bool launches) : launches_(launches) {
    FA_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (launches_) fa::set_gpu_stream(stream_);
  }
  ~Stream() {
    if (launches_) fa::set_gpu_stream(nullptr);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  void wait(const Event& event) { FA_CUDA_CHECK(cudaStreamWaitEvent(stream_, event.get())); }
  void synchronize() { FA_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  const bool launches_;
};

inline void upload(void* to, const void* from, size_t bytes) {
  FA_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  FA_CUDA_CHECK(cudaStreamSynchronize(nullptr));  // the last part may still be in transfer
}
inline void download(void* to, const void* from, size_t bytes) {
  FA_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

}  // namespace gpu::ch19

#include "device_ring.hpp"

namespace gpu::ch19 {

#if FA_NCCL
inline void check(ncclResult_t result, const char* expression) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(expression) + " failed: " + ncclGetErrorString(result));
}
#define FA_NCCL_CHECK(expression) ::gpu::ch19::check((expression), #expression)

// [anchor: nccl]
class NcclLink final : public KeyLink {
 public:
  // Every rank calls it. Rank 0 sends the others the id by which they connect.
  explicit NcclLink(Transport& transport) {
    ncclUniqueId id;
    Part word(sizeof id / sizeof(float));
    if (transport.rank() == 0) {
      FA_NCCL_CHECK(ncclGetUniqueId(&id));
      std::memcpy(word.data(), &id, sizeof id);
      for (int rank = 1; rank < transport.ranks(); ++rank)
        transport.wait(transport.send(rank, Tag::parts, word));
    } else {
      transport.wait(transport.receive(0, Tag::parts, word));
      std::memcpy(&id, word.data(), sizeof id);
    }
    FA_NCCL_CHECK(ncclCommInitRank(&ranks_, transport.ranks(), id, transport.rank()));
  }
  ~NcclLink() override { ncclCommDestroy(ranks_); }

  // Sends and receives in one group. One after the other, each would wait for its peer.
  void exchange(std::span<const Transfer> transfers, Stream& stream) override {
    FA_NCCL_CHECK(ncclGroupStart());
    for (const Transfer& t : transfers) {
      FA_NCCL_CHECK(ncclSend(t.from, t.send_count, ncclBfloat16, t.send_to, ranks_, stream.get()));
      FA_NCCL_CHECK(
          ncclRecv(t.into, t.receive_count, ncclBfloat16, t.receive_from, ranks_, stream.get()));
    }
    FA_NCCL_CHECK(ncclGroupEnd());
  }

 private:
  ncclComm_t ranks_ = nullptr;
};
// [/anchor: nccl]
#endif

}  // namespace gpu::ch19

namespace ch19 {

int usable_gpus() {
  if (!fa::gpu_problem(*::ch09::KERNEL.gpu).empty()) return 0;
  int count = 0;
  FA_CUDA_CHECK(cudaGetDeviceCount(&count));
  return count;
}

bool has_nccl() { return FA_NCCL; }

DeviceResult forward_on_gpu(Transport& transport, Schedule schedule, Link link, int repetitions,
                            const Sizes& sizes, const Part& q, const Part& k, const Part& v) {
  if (const std::string why = fa::gpu_problem(*::ch09::KERNEL.gpu); !why.empty()) {
    throw fa::InputError(why);
  }
  const fa::CurrentGpu mine(transport.rank() % usable_gpus());
  const bool newest =
      (sizes.dim == 64 || sizes.dim == 128) && fa::gpu_problem(*::ch16::KERNEL.gpu).empty();
  const fa::Kernel& chapter = newest ? ::ch16::KERNEL : ::ch09::KERNEL;
  std::unique_ptr<gpu::ch19::KeyLink> keys;
  if (link == Link::host) keys = std::make_unique<gpu::ch19::HostLink>(transport);
  // A rank without enough memory must end before the others wait for it in NCCL, which does not
  // notice.
  gpu::ch19::Rank rank(transport, schedule, sizes, chapter, *chapter.gpu);
  gpu::ch19::meet(transport);
  if (link == Link::nccl) {
#if FA_NCCL
    keys = std::make_unique<gpu::ch19::NcclLink>(transport);
#else
    throw fa::InputError("--link nccl: this build has no NCCL");
#endif
  }
  return gpu::ch19::repeated(rank, transport, *keys, repetitions, q, k, v);
}

}  // namespace ch19

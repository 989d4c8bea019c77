// Replaces device_gpu.cu in builds that cannot compile it.
#include "common/error.hpp"
#include "device_gpt.hpp"

namespace fa::ch20 {

std::unique_ptr<DeviceGpt> make_gpu_gpt(const Recipe&, const AttentionKernels&) {
  throw InputError(FA_LEFT_OUT);
}

}  // namespace fa::ch20

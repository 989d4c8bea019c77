#include "work.hpp"

#include <utility>

#include "chapters/10_backward/chapter.hpp"
#include "chapters/22_backward_on_hopper/chapter.hpp"
#include "common/gpu/runtime.hpp"
#include "common/kernels/runner.hpp"
#include "common/timer.hpp"
#include "parts.hpp"

namespace ch19 {
namespace {

// Returns rank r's part of a tensor that rank 0 holds.
Part handed_out(Transport& transport, Layout layout, const std::vector<float>* whole, int64_t heads,
                int64_t length, int64_t dim) {
  const auto pieces = [&](int rank) { return pieces_of(layout, length, transport.ranks(), rank); };
  if (transport.rank() == 0) {
    for (int rank = 1; rank < transport.ranks(); ++rank) {
      const Part theirs = cut(*whole, pieces(rank), heads, length, dim);
      transport.wait(transport.send(rank, Tag::parts, theirs));
    }
    return cut(*whole, pieces(0), heads, length, dim);
  }
  Part mine(heads * rows_in(pieces(transport.rank())) * dim);
  transport.wait(transport.receive(0, Tag::parts, mine));
  return mine;
}

// Collects the parts on rank 0.
void taken_back(Transport& transport, Layout layout, const Part& part, std::vector<float>* whole,
                int64_t heads, int64_t length, int64_t dim) {
  if (transport.rank() != 0) return transport.wait(transport.send(0, Tag::parts, part));
  for (int rank = 0; rank < transport.ranks(); ++rank) {
    const auto pieces = pieces_of(layout, length, transport.ranks(), rank);
    Part theirs(rank == 0 ? 0 : heads * rows_in(pieces) * dim);
    if (rank != 0) transport.wait(transport.receive(rank, Tag::parts, theirs));
    put(*whole, rank == 0 ? part : theirs, pieces, heads, length, dim);
  }
}

std::vector<Step> steps_of(const DeviceResult& result) {
  std::vector<Step> steps;
  double end_ms = 0;  // end of the previous step
  for (const DeviceStep& step : result.steps) {
    steps.push_back({step.owner, step.scores, step.compute.end_ms - step.compute.begin_ms,
                     step.compute.begin_ms - end_ms, step.compute.begin_ms, step.transfer.begin_ms,
                     step.transfer.end_ms - step.transfer.begin_ms});
    end_ms = step.compute.end_ms;
  }
  return steps;
}

// Returns the kernels of a rank's backward pass, which copy their tensors to its GPU and back.
KernelGradients kernels_of(const Job& job, int rank) {
  if (job.device == Device::cpu) return {};
  return [&job, rank](const fa::Problem& problem, const State& state, Gradients& gradients) {
    const fa::Kernel& chapter = backward_chapter(job);
    const fa::BackwardTensors tensors{state.o, state.lse, gradients.dq, gradients.dk, gradients.dv};
    if (job.device == Device::gpu) {
      const fa::CurrentGpu mine(rank % usable_gpus());
      fa::backward_on_gpu(chapter, problem, tensors);
      return;
    }
    fa::simt::Config config;
    config.counters = false;
    config.threads = 1;  // each rank is already a thread
    const fa::EmulatorRun run = fa::backward_on_emulator(chapter, problem, tensors, {}, config);
    if (!run.report.hazards.empty()) throw std::runtime_error(run.report.hazards.front().text);
  };
}

}  // namespace

const fa::Kernel& backward_chapter(const Job& job) {
  return job.hopper_backward ? ::ch22::KERNEL : ::ch10::KERNEL;
}

Job job_of(const fa::Problem& problem, Schedule schedule, uint32_t breaks, bool backward) {
  const fa::Shape& s = problem.shape;
  return {schedule,
          breaks,
          backward,
          {s.batch * s.heads, s.batch * problem.kv_heads(), s.q, s.kv, s.dim, problem.scale,
           problem.causal}};
}

Report work(Transport& transport, const Job& job, fa::Tensors* tensors) {
  const Layout layout = layout_of(job.schedule);
  const Sizes& sizes = job.sizes;
  using Values = std::vector<float> fa::Tensors::*;
  const auto whole = [&](Values values) { return tensors ? &(tensors->*values) : nullptr; };
  const auto of_q = [&](Values values) {
    return handed_out(transport, layout, whole(values), sizes.heads, sizes.len_q, sizes.dim);
  };
  const auto of_k = [&](Values values) {
    return handed_out(transport, layout, whole(values), sizes.kv_heads, sizes.len_kv, sizes.dim);
  };
  const Part q = of_q(&fa::Tensors::q);
  const Part k = of_k(&fa::Tensors::k), v = of_k(&fa::Tensors::v);
  Part d_o;
  if (job.backward) d_o = of_q(&fa::Tensors::d_o);

  Report report;
  const int64_t before = transport.bytes_sent();
  State state;
  if (job.device != Device::cpu) {
    DeviceResult result =
        job.device == Device::gpu
            ? forward_on_gpu(transport, job.schedule, job.link, job.repetitions, job.sizes, q, k, v)
            : forward_on_emulator(transport, job.schedule, job.repetitions, job.sizes, q, k, v);
    report.forward_ms = result.ms;
    report.bytes_sent = result.bytes_sent;
    report.forward = steps_of(result);
    state = std::move(result.state);
  } else {
    report.forward_ms = fa::time_ms([&] {
      state = forward(transport, {job.schedule, job.breaks, &report.forward}, job.sizes, q, k, v);
    });
  }
  Gradients gradients;
  if (job.backward) {
    const int64_t at_backward = transport.bytes_sent();
    gradients = backward(
        transport, {job.schedule, job.breaks, &report.backward, kernels_of(job, transport.rank())},
        job.sizes, q, k, v, state, d_o);
    report.bytes_sent += transport.bytes_sent() - at_backward;
  }
  if (job.device == Device::cpu) report.bytes_sent = transport.bytes_sent() - before;

  const auto back = [&](const Part& part, Values values, int64_t all_heads, int64_t length,
                        int64_t columns) {
    taken_back(transport, layout, part, whole(values), all_heads, length, columns);
  };
  back(state.o, &fa::Tensors::o, sizes.heads, sizes.len_q, sizes.dim);
  back(state.lse, &fa::Tensors::lse, sizes.heads, sizes.len_q, 1);
  if (job.backward) {
    back(gradients.dq, &fa::Tensors::dq, sizes.heads, sizes.len_q, sizes.dim);
    back(gradients.dk, &fa::Tensors::dk, sizes.kv_heads, sizes.len_kv, sizes.dim);
    back(gradients.dv, &fa::Tensors::dv, sizes.kv_heads, sizes.len_kv, sizes.dim);
  }
  return report;
}

}  // namespace ch19

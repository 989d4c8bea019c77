#include "run.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "chapters/22_backward_on_hopper/chapter.hpp"
#include "common/error.hpp"
#include "common/text.hpp"
#include "common/timer.hpp"
#include "thread_transport.hpp"

namespace ch19 {
namespace {

constexpr const char* SCHEDULES[] = {"gather", "ring", "overlap", "zigzag"};
constexpr int MOST_THREADS = 64;

class ThreadRanks final : public Ranks {
 public:
  explicit ThreadRanks(int count) : count_(count) {}
  int count() const override { return count_; }
  const char* transport() const override { return "threads"; }
  std::vector<Report> run(const Job& job, fa::Tensors& tensors) override {
    std::vector<Report> reports(count_);
    run_ranks(count_, [&](Transport& transport) {
      const bool first = transport.rank() == 0;
      reports[transport.rank()] = work(transport, job, first ? &tensors : nullptr);
    });
    return reports;
  }

 private:
  int count_;
};

Schedule schedule_named(const std::string& name) {
  return static_cast<Schedule>(std::find(std::begin(SCHEDULES), std::end(SCHEDULES), name) -
                               std::begin(SCHEDULES));
}

Device device_asked(const Flags& flags) {
  if (flags.device == "gpu") return Device::gpu;
  return flags.device == "emulator" ? Device::emulator : Device::cpu;
}

// The task of the ranks. Throws InputError if it is not supported.
Job asked_for(const fa::Problem& problem, Schedule schedule, uint32_t breaks, int ranks,
              const Flags& flags) {
  Job job = job_of(problem, schedule, breaks, flags.backward);
  job.device = device_asked(flags);
  if (flags.attention != "auto" && (job.device == Device::cpu || !flags.backward))
    throw fa::InputError("--attention: accepted with --backward on a GPU or the emulator");
  if (job.device == Device::cpu) return job;
  if (breaks != 0) throw fa::InputError("--break: accepted with --device cpu");
  ::ch09::KERNEL.check_shape(problem.shape);
  if (flags.backward) {
    const bool hopper = (problem.shape.dim == 64 || problem.shape.dim == 128) &&
                        job.device == Device::gpu && fa::gpu_problem(*::ch22::KERNEL.gpu).empty();
    job.hopper_backward = flags.attention == "auto" ? hopper : flags.attention == "ch22";
    backward_chapter(job).check_shape(problem.shape);
    if (job.device == Device::gpu)
      if (const std::string why = fa::gpu_problem(*backward_chapter(job).gpu); !why.empty())
        throw fa::InputError(why);
  }
  if (job.device != Device::gpu) {
    if (flags.link == "nccl") throw fa::InputError("--link nccl: accepted with --device gpu");
    return job;
  }
  if (const std::string why = fa::gpu_problem(*::ch09::KERNEL.gpu); !why.empty())
    throw fa::InputError(why);
  const bool one_each = flags.mpi != nullptr || ranks <= usable_gpus();
  if (flags.link == "nccl" && !has_nccl())
    throw fa::InputError("--link nccl: this build has no NCCL");
  if (flags.link == "nccl" && !one_each) {
    throw fa::InputError("--link nccl: " + std::to_string(ranks) + " ranks and " +
                         std::to_string(usable_gpus()) + " GPUs: NCCL wants one for each");
  }
  const bool nccl = flags.link == "nccl" || (flags.link == "auto" && has_nccl() && one_each);
  job.link = nccl ? Link::nccl : Link::host;
  job.repetitions = 3;  // NCCL's ranks connect in the first one
  return job;
}
const char* link_name(const Job& job) { return job.link == Link::nccl ? "nccl" : "host"; }

// Returns the number of pairs of query and key that each rank computes in each step, for one head.
std::string table_of_scores(const std::vector<Report>& reports) {
  std::string table;
  const auto add = [&](const char* format, auto value) { table += fa::text(format, value); };
  table += "  scores     ";
  for (size_t step = 0; step < reports.size(); ++step)
    add("%10s", ("step " + std::to_string(step)).c_str());
  add("%12s\n", "all");
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    add("  rank %-6zu", rank);
    table += "  ";
    int64_t all = 0;
    for (const Step& step : reports[rank].forward) {
      add("%10lld", static_cast<long long>(step.scores));
      all += step.scores;
    }
    add("%12lld\n", static_cast<long long>(all));
  }
  return table;
}

nlohmann::json as_json(const std::vector<Report>& reports, const Flags& flags,
                       std::vector<Step> Report::*pass) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const Report& report : reports) {
    nlohmann::json steps = nlohmann::json::array();
    for (const Step& step : report.*pass) {
      steps.push_back({{"owner", step.owner},
                       {"scores", step.scores},
                       {"compute_ms", step.compute_ms},
                       {"waited_ms", step.waited_ms}});
      if (device_asked(flags) == Device::cpu) continue;
      steps.back()["begin_ms"] = step.begin_ms;
      steps.back()["transfer_begin_ms"] = step.transfer_begin_ms;
      steps.back()["transfer_ms"] = step.transfer_ms;
    }
    ranks.push_back(steps);
  }
  return ranks;
}

int64_t bytes_sent(const std::vector<Report>& reports) {
  int64_t bytes = 0;
  for (const Report& report : reports) bytes += report.bytes_sent;
  return bytes;
}

// Calls with(ranks), where the ranks are processes of mpirun or threads.
template <class With>
void with_ranks(const Flags& flags, const With& with) {
  if (flags.mpi != nullptr) return with(*flags.mpi);
  ThreadRanks threads(static_cast<int>(flags.ranks));
  with(threads);
}

// Runs the forward pass with every schedule in turn and prints the slowest rank's total time,
// computing time and waiting time.
void bench(const fa::Problem& problem, const Flags& flags) {
  // On GPUs each rank repeats the work itself, and the inputs are distributed only once.
  const bool kernels = device_asked(flags) != Device::cpu;
  const int rounds = kernels ? 1 : 7, repetitions = 11;
  struct Times {
    std::vector<double> all, most_work, most_waiting;
  };
  std::array<Times, std::size(SCHEDULES)> times;
  fa::Tensors tensors{problem, std::vector<float>(problem.shape.q_elements()),
                      std::vector<float>(problem.shape.rows())};
  with_ranks(flags, [&](Ranks& ranks) {
    for (int round = kernels ? 1 : 0; round <= rounds; ++round)
      for (size_t i = 0; i < times.size(); ++i) {
        double all = 0, most_work = 0, most_waiting = 0;
        Job job = asked_for(problem, static_cast<Schedule>(i), 0, ranks.count(), flags);
        if (job.device != Device::cpu) job.repetitions = repetitions;
        for (const Report& report : ranks.run(job, tensors)) {
          double work = 0, waiting = 0;
          for (const Step& step : report.forward)
            work += step.compute_ms, waiting += step.waited_ms;
          all = std::max(all, report.forward_ms);
          most_work = std::max(most_work, work);
          most_waiting = std::max(most_waiting, waiting);
        }
        if (round == 0) continue;  // the first round is a warm-up
        times[i].all.push_back(all);
        times[i].most_work.push_back(most_work);
        times[i].most_waiting.push_back(most_waiting);
      }
    std::printf("  bench      %d ranks by %s, forward, milliseconds of the slowest rank\n",
                ranks.count(), ranks.transport());
  });
  for (size_t i = 0; i < times.size(); ++i) {
    std::printf("             %-8s %9.3f, computes %9.3f, waits %9.3f\n", SCHEDULES[i],
                fa::median(times[i].all), fa::median(times[i].most_work),
                fa::median(times[i].most_waiting));
  }
}

// True if a command line asks for gradients.
bool wants_gradients(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const std::string& argument) {
    const std::string option = argument.substr(0, argument.find('='));
    return option == "--backward" || option == "--do" || option == "--dq" || option == "--dk" ||
           option == "--dv";
  });
}

// True if a command line asks for kernels, which need bf16 input.
bool wants_kernels(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument == "--device" && i + 1 < argc ? argv[i + 1]
                              : argument.starts_with("--device=")    ? argument.substr(9)
                                                                     : "cpu";
    if (value == "gpu" || value == "emulator") return true;
  }
  return false;
}

}  // namespace

Flags::Flags(int argc, char** argv, Ranks* mpi_)
    : backward(wants_gradients(argc, argv)), kernels(wants_kernels(argc, argv)), mpi(mpi_) {}

void Flags::declare(fa::Cli& cli) {
  cli.choice("--schedule", schedule, {std::begin(SCHEDULES), std::end(SCHEDULES)},
             "how the keys get to the queries [zigzag]");
  if (mpi == nullptr) {
    cli.integer("--ranks", ranks, 1, MOST_THREADS,
                FA_MPI ? "threads of this process; with mpirun -n N, N processes [4]"
                       : "as threads of this process: this build has no MPI [4]");
  }
  cli.choice("--device", device, {"auto", "cpu", "gpu", "emulator"},
             "gpu: each rank has one, the kernels of chapter 16 or 09, in bf16; emulator: of one "
             "[auto: the CPU, in fp32]");
  cli.choice("--attention", attention, {"auto", "ch10", "ch22"},
             "kernels of the backward pass on a GPU or the emulator [auto: ch22 on a Hopper card "
             "at head size 64 or 128, otherwise ch10]");
  cli.choice("--link", link, {"auto", "nccl", "host"},
             "how keys get from GPU to GPU [auto: nccl, if each rank has one]");
  cli.flag("--backward", backward,
           "the backward pass, too: from --do, or a random dO, to --dq, --dk and --dv");
}

fa::Run run(fa::Tensors& tensors, const fa::Arguments& args, const Flags& flags) {
  fa::Run result;
  with_ranks(flags, [&](Ranks& ranks) {
    const Job job =
        asked_for(tensors, schedule_named(flags.schedule), args.break_bits, ranks.count(), flags);
    result.device = job.device == Device::cpu ? "cpu" : flags.device;
    result.title = flags.schedule + (flags.backward ? ", forward and backward" : "");
    result.notes = "  ranks      " + std::to_string(ranks.count()) + ", by " + ranks.transport();
    result.profile = fa::shared_json({{"ranks", ranks.count()}, {"transport", ranks.transport()}});
    if (job.device == Device::gpu) {
      result.notes += std::string(", keys by ") + link_name(job);
      (*result.profile)["link"] = link_name(job);
    }
    const auto hazard = [&](const char* kind, const std::exception& error) {
      result.hazardous = true;
      result.hazards = fa::shared_json({{{"kind", kind},
                                         {"where", ""},
                                         {"other", ""},
                                         {"count", 1},
                                         {"message", error.what()}}});
      result.notes += std::string("\n  hazard     ") + kind + ": " + error.what() + "\n";
    };
    std::vector<Report> reports;
    result.time_ms = fa::time_ms([&] {
      try {
        reports = ranks.run(job, tensors);
      } catch (const Deadlock& error) {
        hazard("deadlock", error);
      } catch (const MemoryInUse& error) {
        hazard("memory_in_use", error);
      }
    });
    if (result.hazardous) return;
    if (job.device != Device::cpu) {  // without the transfer of inputs and outputs
      result.time_ms = 0;
      for (const Report& report : reports)
        result.time_ms = std::max(result.time_ms, report.forward_ms);
    }
    result.notes += "; " + std::to_string(bytes_sent(reports)) + " bytes sent\n";
    if (args.profile && ranks.count() <= 8) result.notes += table_of_scores(reports);
    (*result.profile)["bytes_sent"] = bytes_sent(reports);
    (*result.profile)["steps"] = as_json(reports, flags, &Report::forward);
    if (flags.backward)
      (*result.profile)["backward_steps"] = as_json(reports, flags, &Report::backward);
  });
  result.bench = [&] { bench(tensors, flags); };
  return result;
}

}  // namespace ch19

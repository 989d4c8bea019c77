// Ring attention: several ranks share the keys and queries of a sequence.
//
//   ch19_ring_attention --ranks 4 --causal --schedule zigzag --profile     ranks are threads
//   mpirun -n 4 ch19_ring_attention --causal --schedule zigzag             or processes
//   ch19_ring_attention --backward
//   ch19_ring_attention --device gpu --ranks 4             one GPU per rank, keys by NCCL

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "breaks.hpp"
#include "breaks/ch19_ring_attention.hpp"
#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "common/backward.hpp"
#include "common/error.hpp"
#include "common/program.hpp"
#include "common/timer.hpp"
#include "thread_transport.hpp"
#include "work.hpp"
#if FA_MPI
#include "mpi_ranks.hpp"
#endif

namespace ch19 {
namespace {

constexpr const char* SCHEDULES[] = {"gather", "ring", "overlap", "zigzag"};
constexpr int MOST_THREADS = 64;

struct Flags {
  std::string schedule = "zigzag";
  int64_t ranks = 4;
  bool backward = false;
  std::string device = "auto", link = "auto";
  Ranks* mpi = nullptr;  // null if the ranks are threads
};
Flags flags;

class ThreadRanks final : public Ranks {
 public:
  explicit ThreadRanks(int count) : count_(count) {}
  int count() const override { return count_; }
  const char* transport() const override { return "threads"; }
  std::vector<Report> run(const Job& job, const fa::Problem& problem,
                          std::span<std::vector<float>> outputs) override {
    std::vector<Report> reports(count_);
    run_ranks(count_, [&](Transport& transport) {
      const bool first = transport.rank() == 0;
      reports[transport.rank()] =
          work(transport, job, first ? &problem : nullptr, first ? outputs : outputs.first(0));
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

Device device_asked() {
  if (flags.device == "gpu") return Device::gpu;
  return flags.device == "emulator" ? Device::emulator : Device::cpu;
}

// The task of the ranks. Throws InputError if it is not supported.
Job asked_for(const fa::Problem& problem, Schedule schedule, uint32_t breaks, int ranks) {
  Job job = job_of(problem, schedule, breaks, flags.backward);
  job.device = device_asked();
  if (job.device == Device::cpu) return job;
  if (breaks != 0) throw fa::InputError("--break: accepted with --device cpu");
  if (flags.backward) throw fa::InputError("--backward: accepted with --device cpu");
  ::ch09::CHAPTER.check_shape(problem.shape);
  if (job.device != Device::gpu) {
    if (flags.link == "nccl") throw fa::InputError("--link nccl: accepted with --device gpu");
    return job;
  }
  if (const std::string why = fa::gpu_problem(*::ch09::CHAPTER.gpu); !why.empty())
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
  char cell[64];
  const auto add = [&](const char* format, auto value) {
    std::snprintf(cell, sizeof cell, format, value);
    table += cell;
  };
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

nlohmann::json as_json(const std::vector<Report>& reports, std::vector<Step> Report::*pass) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const Report& report : reports) {
    nlohmann::json steps = nlohmann::json::array();
    for (const Step& step : report.*pass) {
      steps.push_back({{"owner", step.owner},
                       {"scores", step.scores},
                       {"compute_ms", step.compute_ms},
                       {"waited_ms", step.waited_ms}});
      if (device_asked() == Device::cpu) continue;
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
void with_ranks(const With& with) {
  if (flags.mpi != nullptr) return with(*flags.mpi);
  ThreadRanks threads(static_cast<int>(flags.ranks));
  with(threads);
}

fa::Outcome run(const fa::Problem& problem, const fa::Request& request,
                std::span<std::vector<float>> outputs) {
  fa::Outcome outcome;
  with_ranks([&](Ranks& ranks) {
    const Job job =
        asked_for(problem, schedule_named(flags.schedule), request.breaks, ranks.count());
    outcome.device = job.device == Device::cpu ? "cpu" : flags.device;
    outcome.title = flags.schedule + (flags.backward ? ", forward and backward" : "");
    outcome.notes = "  ranks      " + std::to_string(ranks.count()) + ", by " + ranks.transport();
    outcome.profile = fa::shared_json({{"ranks", ranks.count()}, {"transport", ranks.transport()}});
    if (job.device == Device::gpu) {
      outcome.notes += std::string(", keys by ") + link_name(job);
      (*outcome.profile)["link"] = link_name(job);
    }
    const auto hazard = [&](const char* kind, const std::exception& error) {
      outcome.hazardous = true;
      outcome.hazards = fa::shared_json({{{"kind", kind},
                                          {"where", ""},
                                          {"other", ""},
                                          {"count", 1},
                                          {"message", error.what()}}});
      outcome.notes += std::string("\n  hazard     ") + kind + ": " + error.what() + "\n";
    };
    std::vector<Report> reports;
    outcome.time_ms = fa::time_ms([&] {
      try {
        reports = ranks.run(job, problem, outputs);
      } catch (const Deadlock& error) {
        hazard("deadlock", error);
      } catch (const MemoryInUse& error) {
        hazard("memory_in_use", error);
      }
    });
    if (outcome.hazardous) return;
    if (job.device != Device::cpu) {  // without the transfer of inputs and outputs
      outcome.time_ms = 0;
      for (const Report& report : reports)
        outcome.time_ms = std::max(outcome.time_ms, report.forward_ms);
    }
    outcome.notes += "; " + std::to_string(bytes_sent(reports)) + " bytes sent\n";
    if (request.profile && ranks.count() <= 8) outcome.notes += table_of_scores(reports);
    (*outcome.profile)["bytes_sent"] = bytes_sent(reports);
    (*outcome.profile)["steps"] = as_json(reports, &Report::forward);
    if (flags.backward) (*outcome.profile)["backward_steps"] = as_json(reports, &Report::backward);
  });
  return outcome;
}

// Runs the forward pass with every schedule in turn and prints the slowest rank's total time,
// computing time and waiting time.
void bench(const fa::Problem& problem, const fa::Request&) {
  // On GPUs each rank repeats the work itself, and the inputs are distributed only once.
  const bool kernels = device_asked() != Device::cpu;
  const int rounds = kernels ? 1 : 7, repetitions = 11;
  struct Times {
    std::vector<double> all, most_work, most_waiting;
  };
  std::array<Times, std::size(SCHEDULES)> times;
  std::vector<float> outputs[] = {std::vector<float>(problem.shape.q_elements()),
                                  std::vector<float>(problem.shape.rows())};
  with_ranks([&](Ranks& ranks) {
    for (int round = kernels ? 1 : 0; round <= rounds; ++round)
      for (size_t i = 0; i < times.size(); ++i) {
        double all = 0, most_work = 0, most_waiting = 0;
        Job job = asked_for(problem, static_cast<Schedule>(i), 0, ranks.count());
        if (job.device != Device::cpu) job.repetitions = repetitions;
        for (const Report& report : ranks.run(job, problem, outputs)) {
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

// Returns an operation with the outputs O, LSE, dQ, dK and dV.
const fa::Operation& both_passes() {
  static const fa::Operation both = [] {
    const fa::Operation &forward = fa::forward_operation(), &backward = fa::backward_operation();
    fa::Operation all = backward;
    all.outputs.insert(all.outputs.begin(), forward.outputs.begin(), forward.outputs.end());
    all.check = [&](const fa::Problem& problem, std::span<const std::vector<float>> outputs,
                    uint64_t seed) {
      fa::Verdict verdict = forward.check(problem, outputs.first(2), seed);
      const fa::Verdict gradients = backward.check(problem, outputs.subspan(2), seed);
      verdict.passed = verdict.passed && gradients.passed;
      verdict.text += "\n" + gradients.text;
      verdict.report = fa::shared_json({{"passed", verdict.passed},
                                        {"forward", *verdict.report},
                                        {"backward", *gradients.report}});
      return verdict;
    };
    all.flops = [](const fa::Problem& problem) {
      return 3.5 * fa::forward_operation().flops(problem);
    };
    return all;
  }();
  return both;
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

int run_program(int argc, char** argv, Ranks* mpi) {
  flags.mpi = mpi;
  flags.backward = wants_gradients(argc, argv);
  static bool named;  // --backward is parsed earlier and only declared here
  fa::AttentionProgram program;
  program.name = "ch19_ring_attention";
  program.about = "Chapter 19: ring attention, a sequence that several ranks share";
  program.default_shape = {1, 4, 1024, 1024, 64};
  program.breaks = {std::begin(BREAKS), std::end(BREAKS)};
  program.demos = CH19_BREAKS;
  if (mpi != nullptr) program.demos.not_taken = "--ranks";  // mpirun says how many
  program.dtypes = {fa::Dtype::f32};
  program.features = fa::CAUSAL | fa::LSE | fa::KV_HEADS;
  if (wants_kernels(argc, argv)) program.dtypes = {fa::Dtype::bf16};
  if (flags.backward) program.operation = &both_passes();
  program.add_options = [](fa::Cli& cli) {
    cli.choice("--schedule", flags.schedule, {std::begin(SCHEDULES), std::end(SCHEDULES)},
               "how the keys get to the queries [zigzag]");
    if (flags.mpi == nullptr) {
      cli.integer("--ranks", flags.ranks, 1, MOST_THREADS,
                  FA_MPI ? "threads of this process; with mpirun -n N, N processes [4]"
                         : "as threads of this process: this build has no MPI [4]");
    }
    cli.choice("--device", flags.device, {"auto", "cpu", "gpu", "emulator"},
               "gpu: each rank has one, the kernels of chapter 16 or 09, in bf16; emulator: of one "
               "[auto: the CPU, in fp32]");
    cli.choice("--link", flags.link, {"auto", "nccl", "host"},
               "how keys get from GPU to GPU [auto: nccl, if each rank has one]");
    cli.flag("--backward", named,
             "the backward pass, too: from --do, or a random dO, to --dq, --dk and --dv");
  };
  program.run = run;
  program.bench = bench;
  return fa::run_attention_program(program, argc, argv);
}

// Returns the value of the first of these variables that is set. mpirun of Open MPI and MPICH, and
// PMIx, set them.
const char* first_set(std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (const char* value = std::getenv(variable)) return value;
  return nullptr;
}

}  // namespace
}  // namespace ch19

int main(int argc, char** argv) {
  using namespace ch19;
  const char* const rank = first_set({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"});
  if (rank == nullptr) return run_program(argc, argv, nullptr);
#if FA_MPI
  return run_by_mpi(argc, argv, run_program);
#else
  if (std::string(rank) == "0") {
    std::cerr
        << "error: this build has no MPI, and its ranks are threads: start it without mpirun, "
           "with --ranks; for MPI install libopenmpi-dev and build again\n";
  }
  return fa::kBadInput;
#endif
}

#include "mpi_ranks.hpp"

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "common/error.hpp"
#include "mpi_transport.hpp"

namespace ch19 {
namespace {

constexpr uint64_t VERSION = 1;  // version of the messages between ranks

struct Order {
  bool work;  // false at the end
  Job job;
};

// Sends an order from rank 0 to all ranks. Waiting ranks yield, because there may be more ranks
// than cores, and rank 0 checks against float64 in between.
void broadcast(Order& order) {
  MPI_Request request;
  MPI_Ibcast(&order, sizeof order, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Runs work whose failure would leave the other ranks waiting. If it fails, all ranks end.
template <class Work>
auto or_all_end(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, fa::kBadInput);
    std::abort();  // MPI_Abort does not return
  }
}

// Returns all reports on rank 0.
std::vector<Report> gathered(const Report& mine, int ranks) {
  const auto numbers = static_cast<int>(sizeof(Step)) * ranks;
  std::vector<Report> all(ranks);
  const auto gather = [&](const void* from, int bytes, auto to) {
    std::vector<char> together(static_cast<size_t>(bytes) * ranks);
    MPI_Gather(from, bytes, MPI_BYTE, together.data(), bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; ++rank) to(all[rank], together.data() + rank * int64_t{bytes});
  };
  gather(&mine.bytes_sent, sizeof mine.bytes_sent, [](Report& one, const char* bytes) {
    std::copy_n(bytes, sizeof one.bytes_sent, reinterpret_cast<char*>(&one.bytes_sent));
  });
  gather(&mine.forward_ms, sizeof mine.forward_ms, [](Report& one, const char* bytes) {
    std::copy_n(bytes, sizeof one.forward_ms, reinterpret_cast<char*>(&one.forward_ms));
  });
  for (std::vector<Step> Report::*const steps : {&Report::forward, &Report::backward}) {
    if ((mine.*steps).empty()) continue;
    gather((mine.*steps).data(), numbers, [&](Report& one, const char* bytes) {
      (one.*steps).resize(ranks);
      std::copy_n(bytes, numbers, reinterpret_cast<char*>((one.*steps).data()));
    });
  }
  return all;
}

class MpiRanks final : public Ranks {
 public:
  explicit MpiRanks(int count) : count_(count) {}
  int count() const override { return count_; }
  const char* transport() const override { return "mpi"; }
  std::vector<Report> run(const Job& job, fa::Tensors& tensors) override {
    Order order{true, job};
    broadcast(order);
    return or_all_end([&] {
      MpiTransport transport(MPI_COMM_WORLD);
      return gathered(work(transport, job, &tensors), count_);
    });
  }

 private:
  int count_;
};

void do_jobs(int ranks) {
  for (Order order{};;) {
    broadcast(order);
    if (!order.work) return;
    or_all_end([&] {
      MpiTransport transport(MPI_COMM_WORLD);
      return gathered(work(transport, order.job, nullptr), ranks);
    });
  }
}

// Returns the first rank that was started with other arguments than rank 0, or -1.
int who_differs(int argc, char** argv, int ranks) {
  std::string started = std::to_string(VERSION) + '/' + std::to_string(sizeof(Order));
  for (int i = 1; i < argc; ++i) started += '\0' + std::string(argv[i]);
  const uint64_t mine = std::hash<std::string>{}(started);
  std::vector<uint64_t> all(ranks);
  MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  for (int rank = 0; rank < ranks; ++rank)
    if (all[rank] != all[0]) return rank;
  return -1;
}

void end_all_ranks() {
  Order end{};
  broadcast(end);
  MPI_Finalize();
}

}  // namespace

int run_by_mpi(int argc, char** argv, int (*program)(int argc, char** argv, Ranks* ranks)) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int other = who_differs(argc, argv, ranks);
  if (other >= 0) {
    if (rank == 0) {
      std::fprintf(stderr,
                   "error: rank %d was started with other arguments than rank 0, or is another "
                   "version of this program\n",
                   other);
    }
    MPI_Finalize();
    return fa::kBadInput;
  }
  if (rank == 0) {
    std::atexit(end_all_ranks);  // because --help also ends the program
    MpiRanks all(ranks);
    return program(argc, argv, &all);
  }
  do_jobs(ranks);
  MPI_Finalize();
  return fa::kAgreed;
}

}  // namespace ch19

#pragma once
// Ranks as processes on one machine or on several, by MPI.

#include <mpi.h>

#include <chrono>

#include "transport.hpp"

namespace ch19 {

// The processes of `group`, for example MPI_COMM_WORLD, between MPI_Init and MPI_Finalize. Messages
// have fewer than 2^31 numbers, because larger ones throw std::invalid_argument. An error of MPI
// itself ends all ranks, as is MPI's default.
class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm group);
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  Request send(int to, Tag tag, std::span<const float> numbers) override;
  Request receive(int from, Tag tag, std::span<float> numbers) override;
  void wait(const Request& request) override;

 private:
  using Clock = std::chrono::steady_clock;
  MPI_Comm group_;
  int rank_ = 0, ranks_ = 1;
  Clock::time_point last_call_ = Clock::now();
  Clock::duration longest_work_{};  // between two waits
};

}  // namespace ch19

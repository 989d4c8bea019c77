#include "mpi_transport.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <thread>

namespace ch19 {
namespace {

struct Pending final : Message {
  MPI_Request request = MPI_REQUEST_NULL;
  int other = 0, size = 0;
  bool received = false;  // false if sent
};

int count_of(size_t size) {
  if (size <= static_cast<size_t>(std::numeric_limits<int>::max())) return static_cast<int>(size);
  throw std::invalid_argument("a message of " + std::to_string(size) +
                              " numbers: MPI takes fewer than 2^31; use more ranks");
}

}  // namespace

MpiTransport::MpiTransport(MPI_Comm group) : group_(group) {
  MPI_Comm_rank(group, &rank_);
  MPI_Comm_size(group, &ranks_);
}

Request MpiTransport::send(int to, Tag tag, std::span<const float> numbers) {
  auto pending = std::make_shared<Pending>();
  pending->other = to;
  pending->size = count_of(numbers.size());
  MPI_Isend(numbers.data(), pending->size, MPI_FLOAT, to, static_cast<int>(tag), group_,
            &pending->request);
  bytes_sent_ += static_cast<int64_t>(numbers.size_bytes());
  return pending;
}

Request MpiTransport::receive(int from, Tag tag, std::span<float> numbers) {
  auto pending = std::make_shared<Pending>();
  pending->other = from;
  pending->size = count_of(numbers.size());
  pending->received = true;
  MPI_Irecv(numbers.data(), pending->size, MPI_FLOAT, from, static_cast<int>(tag), group_,
            &pending->request);
  return pending;
}

// Waits until the message is complete. Gives up on the other rank after far more time than all
// ranks need for a step one after another, where a step is this rank's longest work between two
// calls. By then the other rank has ended or hangs, or all wait for each other.
void MpiTransport::wait(const Request& request) {
  if (!request) return;
  Pending& pending = static_cast<Pending&>(*request);
  if (pending.request == MPI_REQUEST_NULL) return;  // a repeated wait
  const auto began = Clock::now();
  longest_work_ = std::max(longest_work_, began - last_call_);
  const auto patience = std::chrono::seconds(8) + 4 * ranks_ * longest_work_;
  MPI_Status status;
  for (int done = 0;;) {
    MPI_Test(&pending.request, &done, &status);
    if (done) break;
    const auto waited = Clock::now() - began;
    if (waited > patience) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
      throw RankLost("rank " + std::to_string(rank_) + ": nothing from rank " +
                     std::to_string(pending.other) + " for " + std::to_string(seconds) +
                     " seconds: it has ended, or hangs, or all wait for one another");
    }
    if (waited < std::chrono::milliseconds(100)) {
      std::this_thread::yield();
    } else {  // there may be more ranks than cores
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  last_call_ = Clock::now();
  if (!pending.received) return;
  int arrived = 0;
  MPI_Get_count(&status, MPI_FLOAT, &arrived);
  if (arrived != pending.size) {
    throw std::invalid_argument("rank " + std::to_string(status.MPI_SOURCE) + " sends " +
                                std::to_string(arrived) + " numbers to rank " +
                                std::to_string(rank_) + ", which receives " +
                                std::to_string(pending.size));
  }
}

}  // namespace ch19

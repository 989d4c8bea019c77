#pragma once
// What the ranks of a ring need of one another: five calls. MPI has them, for processes on any
// number of machines; threads of one process can do the same.

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

namespace ch19 {

// A send or a receive that was started; each transport has its own. Empty: there is none, and
// wait() returns at once.
struct Message {
  virtual ~Message() = default;
};
using Request = std::shared_ptr<Message>;

enum class Tag { parts, keys, gradients };

// Nobody can go on: each rank waits for another one.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Memory that a message still reads or writes is given to another one.
struct MemoryInUse : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Another rank has ended before this one had what it waits for.
struct RankLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // [anchor: calls]
  virtual int rank() const = 0;  // 0 to ranks() - 1
  virtual int ranks() const = 0;
  // Both return at once. Until wait() the memory is the transport's: what is sent may not change,
  // and what is received may not be read. Messages of one tag from one rank to another arrive in
  // their order, each in one receive of its size.
  virtual Request send(int to, Tag tag, std::span<const float> numbers) = 0;
  virtual Request receive(int from, Tag tag, std::span<float> numbers) = 0;
  virtual void wait(const Request& request) = 0;
  // [/anchor: calls]

  int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  int64_t bytes_sent_ = 0;
};

}  // namespace ch19

#pragma once
// The five calls that the ranks of a ring need. MPI provides them for processes on any number of
// machines, and threads of one process can provide them as well.

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

namespace ch19 {

// A send or a receive that has been started. Each transport defines its own. If it is empty, there
// is none, and wait() returns immediately.
struct Message {
  virtual ~Message() = default;
};
using Request = std::shared_ptr<Message>;

enum class Tag { parts, keys, gradients };

// No rank can continue, because each waits for another one.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Memory that a message still reads or writes has been passed to another message.
struct MemoryInUse : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Another rank has ended before it sent or received what this rank waits for.
struct RankLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // [anchor: calls]
  virtual int rank() const = 0;  // 0 to ranks() - 1
  virtual int ranks() const = 0;
  // Both return immediately. Until wait(), the transport owns the memory, so sent data must not
  // change and received data must not be read. Messages with the same tag from one rank to another
  // arrive in order, each in one receive of its size.
  virtual Request send(int to, Tag tag, std::span<const float> numbers) = 0;
  virtual Request receive(int from, Tag tag, std::span<float> numbers) = 0;
  virtual void wait(const Request& request) = 0;
  // [/anchor: calls]

  int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  int64_t bytes_sent_ = 0;
};

}  // namespace ch19

#pragma once
// The blocks of a cluster: on a GPU they are resident together; here one CPU thread runs them, each
// until it waits for the others. They meet at cluster_sync. In a launch without clusters each block
// is a cluster of its own.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/simt/block.hpp"

namespace fa::simt {

class Cluster {
 public:
  /// `idle`: is the CPU thread that runs it counted in launch.idle?
  Cluster(const Launch& launch, bool& idle);

  /// Starts cluster `index` (x fastest), and runs its blocks until they have finished, or those
  /// that have not only poll. Throws what a thread threw; the other blocks are unwound then.
  Block::State start(int index);
  Block::State go_on();
  void stop();  // unwinds the threads of all its blocks
  /// Ends a cluster that polls: nobody will ever change what it looks at.
  void give_up_polling();
  int64_t idle_polls() const;

  /// Lets all go on that wait at cluster_sync, if all threads that have not returned wait there.
  /// False: they do not.
  bool open_if_complete();

  std::vector<std::unique_ptr<Block>>& blocks() { return blocks_; }  // by rank

 private:
  Block::State run();
  void end_waiting();
  std::string others_at_sync() const;

  const Launch& launch_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<int> order_;  // ranks, in the order in which they take turns
};

}  // namespace fa::simt

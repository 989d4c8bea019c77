#pragma once
// Runs the blocks of a cluster. On a GPU they are resident together. Here one CPU thread runs them
// in turn, each until it waits for the others at cluster_sync. In a launch without clusters, each
// block forms its own cluster.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/simt/block.hpp"

namespace fa::simt {

class Cluster {
 public:
  /// `idle` says whether the CPU thread that runs this cluster is counted in launch.idle.
  Cluster(const Launch& launch, bool& idle);

  /// start() begins cluster `index` (x fastest). Both functions run its blocks until all have
  /// finished, or until the unfinished ones only poll. They rethrow what a kernel thread threw,
  /// after unwinding the other blocks.
  Block::State start(int index);
  Block::State go_on();
  void stop();  // unwinds the threads of all its blocks
  /// Ends a cluster that polls, because no thread will change what it reads.
  void give_up_polling();
  int64_t idle_polls() const;

  /// Releases all threads at cluster_sync if every thread that has not returned waits there.
  /// Returns false otherwise.
  bool open_if_complete();

  std::vector<std::unique_ptr<Block>>& blocks() { return blocks_; }  // indexed by rank

 private:
  Block::State run();
  void end_waiting();
  std::string others_at_sync() const;

  const Launch& launch_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<int> order_;  // ranks, in the order in which they run
};

}  // namespace fa::simt

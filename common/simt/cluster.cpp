#include "common/simt/cluster.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "common/simt/shuffle.hpp"

namespace fa::simt {

Cluster::Cluster(const Launch& launch, bool& idle) : launch_(launch) {
  const Dim3& size = launch.config.cluster;
  order_.resize(static_cast<size_t>(size.x * size.y * size.z));
  for (size_t i = 0; i < order_.size(); ++i) {
    blocks_.push_back(std::make_unique<Block>(launch, *this, idle));
  }
}

Block::State Cluster::start(int index) {
  const Dim3 &grid = launch_.config.grid, &size = launch_.config.cluster;
  const Dim3 place = place_of(index, {grid.x / size.x, grid.y / size.y, grid.z / size.z});
  for (size_t rank = 0; rank < blocks_.size(); ++rank) {
    const Dim3 within = place_of(static_cast<int>(rank), size);
    const int x = place.x * size.x + within.x, y = place.y * size.y + within.y;
    const int z = place.z * size.z + within.z;
    blocks_[rank]->begin((z * grid.y + y) * grid.x + x, static_cast<int>(rank));
  }
  std::iota(order_.begin(), order_.end(), 0);
  if (const uint64_t seed = launch_.run.schedule_seed; seed != 0 && order_.size() > 1) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(index));
    shuffle(order_, random);
  }
  return go_on();
}

Block::State Cluster::go_on() {
  try {
    return run();
  } catch (...) {
    stop();
    throw;
  }
}

Block::State Cluster::run() {
  bool polls = false;
  for (bool moves = true; moves;) {
    polls = moves = false;
    for (const int rank : order_) {
      Block& block = *blocks_[static_cast<size_t>(rank)];
      if (!block.can_go_on()) continue;
      const bool polled = block.go_on() == Block::State::kPolling;
      polls |= polled;
      moves |= !polled;  // others may be waiting for what it did
    }
  }
  if (polls) return Block::State::kPolling;
  end_waiting();
  return Block::State::kFinished;
}

void Cluster::stop() {
  for (const std::unique_ptr<Block>& block : blocks_) block->stop();
}

int64_t Cluster::idle_polls() const {
  int64_t polls = 0;
  for (const std::unique_ptr<Block>& block : blocks_) polls += block->idle_polls();
  return polls;
}

void Cluster::give_up_polling() {
  try {
    const std::string others = others_at_sync();
    for (const std::unique_ptr<Block>& block : blocks_) {
      if (block->state() == Block::State::kPolling) block->give_up_polling(others);
    }
    end_waiting();
  } catch (...) {
    stop();
    throw;
  }
}

// Handles a cluster in which no thread of the remaining blocks can continue. The cause is a block
// with threads that wait elsewhere than at cluster_sync, or a block that has ended with a report.
void Cluster::end_waiting() {
  const auto waits = [](const Block& block) { return block.state() == Block::State::kWaiting; };
  if (std::none_of(blocks_.begin(), blocks_.end(), [&](const auto& b) { return waits(*b); }))
    return;
  const std::string others = others_at_sync();
  for (const std::unique_ptr<Block>& block : blocks_) {
    if (waits(*block)) block->give_up_waiting(others);
  }
}

// Returns, for the report of another block, which blocks wait only at cluster_sync.
std::string Cluster::others_at_sync() const {
  const Block* first = nullptr;
  int count = 0;
  for (const std::unique_ptr<Block>& block : blocks_) {
    if (!block->waits_at_cluster_sync_only()) continue;
    if (count++ == 0) first = block.get();
  }
  if (count == 0) return "";
  const std::string number = std::to_string(first->index());
  return (count == 1 ? "; block " + number + " of its cluster waits at "
                     : "; " + std::to_string(count) + " blocks of its cluster (block " + number +
                           " first) wait at ") +
         first->place_at_cluster_sync();
}

bool Cluster::open_if_complete() {
  for (const std::unique_ptr<Block>& block : blocks_) {
    if (!block->all_at_cluster_sync()) return false;
  }
  std::shared_ptr<Foreign> known;
  if (blocks_.size() > 1) {
    known = std::make_shared<Foreign>();
    for (const std::unique_ptr<Block>& block : blocks_) block->release_to_cluster(*known);
  }
  for (const std::unique_ptr<Block>& block : blocks_) block->open_cluster_sync(known);
  return true;
}

}  // namespace fa::simt

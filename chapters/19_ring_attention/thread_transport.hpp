#pragma once
// Ranks as threads of this process.

#include <functional>

#include "transport.hpp"

namespace ch19 {

// Runs work(transport) on `ranks` threads, one per rank, and returns when all have ended. A send is
// complete when its receive has been called. If every rank waits and no message can arrive, all
// throw Deadlock. A rank that passes memory of an unfinished message to another one throws
// MemoryInUse. If a rank throws, others that wait for it throw RankLost. Rethrows the first
// exception other than RankLost, or RankLost if there is no other.
void run_ranks(int ranks, const std::function<void(Transport&)>& work);

}  // namespace ch19

#pragma once
// Ranks as threads of this process.

#include <functional>

#include "transport.hpp"

namespace ch19 {

// Runs work(transport) on `ranks` threads, one a rank, and returns when all have ended. A send is
// done when its receive was called. If every rank waits and no message can arrive, Deadlock is
// thrown in all; MemoryInUse by who gives memory to a message that another one still has; if a rank
// throws, the others get RankLost when they wait for it. Rethrows what the first rank threw, and
// RankLost only if there is nothing else.
void run_ranks(int ranks, const std::function<void(Transport&)>& work);

}  // namespace ch19

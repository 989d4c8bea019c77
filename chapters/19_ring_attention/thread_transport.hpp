#pragma once
// Ranks as threads of this process.

#include <functional>

#include "transport.hpp"

namespace ch19 {

// Runs work(transport) on `ranks` threads, one a rank, and returns when all have ended. A message
// is copied as late as the five calls allow, when one of its two sides waits for it: who changes
// what is in flight sees it. If every rank waits and no message can arrive, Deadlock is thrown in
// all; if one throws, the others get RankLost when they wait for it. Rethrows what the first threw.
void run_ranks(int ranks, const std::function<void(Transport&)>& work);

}  // namespace ch19

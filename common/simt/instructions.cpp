#include "common/simt/instructions.hpp"

#include <iterator>

namespace fa::simt {

namespace {

constexpr const char* kEventNames[] = {
    "copy_issue",     "commit",       "wait",        "land",         "barrier",
    "barrier_arrive", "cluster_sync", "warp_sync",   "ldmatrix",     "mma",
    "shuffle",        "vote",         "load_shared", "store_shared", "load_global",
    "store_global",   "atomic",       "fence",       "mbarrier",     "mbarrier_arrive",
    "mbarrier_wait",  "tma_load",     "tma_store",   "wgmma",        "registers"};
static_assert(std::size(kEventNames) == static_cast<size_t>(EventKind::kRegisters) + 1);

}  // namespace

const char* event_name(EventKind kind) { return kEventNames[static_cast<size_t>(kind)]; }

}  // namespace fa::simt

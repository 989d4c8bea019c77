#pragma once
// Write down the groups in flight at the wait, oldest first, strike out the group that is needed,
// and count the rest. With 3 stages, tile 0:
//   loads_first   K0 V0 K1 V1 K2: K0 is needed, 4 are younger: V and K of 2 tiles, 2 (stages - 1)
//   loads_after   K0 V0 K1 V1:    K0 is needed, 3 are younger: K2 is loaded after the wait
//   one_group     KV0 KV1 KV2:    KV0 is needed, 2 are younger

#include "common/kernels/geometry.hpp"

namespace FA_BACKEND::ex05 {

inline int loads_first(int stages) { return 2 * (stages - 1); }
inline int loads_after(int stages) { return 2 * (stages - 1) - 1; }
inline int one_group(int stages) { return stages - 1; }

}  // namespace FA_BACKEND::ex05

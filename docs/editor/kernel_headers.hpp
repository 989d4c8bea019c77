// Precompiled in the page before the first run of a kernel: the headers of the chapters' kernels.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/kernels/kernel.hpp"
#include "common/kernels/launch.hpp"
#include "common/kernels/mask.hpp"
#include "common/kernels/wgmma_tile.hpp"
#include "common/kernels/wide_epilogue.hpp"

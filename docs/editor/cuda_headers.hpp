// Precompiled in the page before the first run of a CUDA file, once for the device and once for the
// host.

#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <string>
#include <vector>

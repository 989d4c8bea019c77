#include <doctest/doctest.h>

#include "chapter.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/kernels/test/kernel_test.hpp"

using namespace fa;
using namespace fa::test;

namespace {

const KernelChapter& KERNEL = ch09::CHAPTER;

TEST_CASE("agrees with float64 on the named shapes, at three input scales") {
  agrees_on_named_shapes(KERNEL);
}

}  // namespace

#include "matrix.hpp"

#include <Eigen/Core>
#include <algorithm>

#include "common/parallel.hpp"

namespace fa::ch20 {
namespace {

template <class R>
using Dense =
    Eigen::Matrix<std::remove_const_t<R>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class R>
using Constness = std::conditional_t<std::is_const_v<R>, const Dense<R>, Dense<R>>;

template <class R>
auto eigen(Matrix<R> m) {
  return Eigen::Map<Constness<R>, 0, Eigen::OuterStride<>>(m.data, m.rows, m.cols,
                                                           Eigen::OuterStride<>(m.stride));
}

// Eigen splits a product according to the sizes of the caches, and the order of its sums depends on
// the split. It would query the machine. With fixed sizes, the same program gives the same sums
// everywhere.
const bool cache_sizes_set = [] {
  Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
  return true;
}();

}  // namespace

template <class R>
void add_product(Matrix<R> C, Input<R> A, Input<R> B, std::type_identity_t<R> factor) {
  eigen(C).noalias() += factor * eigen(A) * eigen(B);
}
template <class R>
void add_inner(Matrix<R> C, Input<R> A, Input<R> B, std::type_identity_t<R> factor) {
  eigen(C).noalias() += factor * eigen(A) * eigen(B).transpose();
}
template <class R>
void add_outer(Matrix<R> C, Input<R> A, Input<R> B, std::type_identity_t<R> factor) {
  eigen(C).noalias() += factor * eigen(A).transpose() * eigen(B);
}

template <class R>
R exponentiate(R* x, int64_t count, R m) {
  Eigen::Map<Eigen::Array<R, Eigen::Dynamic, 1>> values(x, count);
  values = (values - m).exp();
  return values.sum();
}

void for_row_blocks(int64_t rows, const std::function<void(int64_t, int64_t)>& work) {
  constexpr int64_t kBlock = 32;
  parallel_for((rows + kBlock - 1) / kBlock, 0, [&](int64_t block, int) {
    work(block * kBlock, std::min(kBlock, rows - block * kBlock));
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): R is a type
#define FA_INSTANTIATE(R)                                      \
  template void add_product(Matrix<R>, Input<R>, Input<R>, R); \
  template void add_inner(Matrix<R>, Input<R>, Input<R>, R);   \
  template void add_outer(Matrix<R>, Input<R>, Input<R>, R);   \
  template R exponentiate(R*, int64_t, R);
// NOLINTEND(bugprone-macro-parentheses)
FA_INSTANTIATE(float)
FA_INSTANTIATE(double)
#undef FA_INSTANTIATE

}  // namespace fa::ch20

#pragma once
// Chapter 19's ring, where two ranks, which are threads of this process, share the sequence in
// zigzag.

#include <algorithm>

#include "chapters/19_ring_attention/parts.hpp"
#include "chapters/19_ring_attention/ring.hpp"
#include "chapters/19_ring_attention/thread_transport.hpp"
#include "packed_attention.hpp"

namespace fa::ch20 {

template <class R>
class RingAttention : public PackedAttention<R> {
 public:
  explicit RingAttention(const AttentionShape& shape) : PackedAttention<R>(shape, Dtype::f32) {}

 protected:
  void attend() override {
    ::ch19::run_ranks(kRanks, [&](::ch19::Transport& transport) {
      ::ch19::State& state = states_[transport.rank()];
      state = ::ch19::forward(transport, {kSchedule}, sizes(), mine(transport, this->problem_.q),
                              mine(transport, this->problem_.k), mine(transport, this->problem_.v));
      give_back(transport, state.o, this->o_);
    });
  }
  void differentiate(std::span<float> dq, std::span<float> dk, std::span<float> dv) override {
    std::vector<float> whole[3];
    for (std::vector<float>& one : whole) one.resize(dq.size());
    ::ch19::run_ranks(kRanks, [&](::ch19::Transport& transport) {
      const ::ch19::Gradients found =
          ::ch19::backward(transport, {kSchedule}, sizes(), mine(transport, this->problem_.q),
                           mine(transport, this->problem_.k), mine(transport, this->problem_.v),
                           states_[transport.rank()], mine(transport, this->problem_.d_o));
      give_back(transport, found.dq, whole[0]);
      give_back(transport, found.dk, whole[1]);
      give_back(transport, found.dv, whole[2]);
    });
    std::ranges::copy(whole[0], dq.begin());
    std::ranges::copy(whole[1], dk.begin());
    std::ranges::copy(whole[2], dv.begin());
  }

 private:
  static constexpr int kRanks = 2;
  static constexpr ::ch19::Schedule kSchedule = ::ch19::Schedule::zigzag;

  int64_t heads() const { return this->shape_.batch * this->shape_.heads; }
  ::ch19::Sizes sizes() const {
    const AttentionShape& shape = this->shape_;
    return {heads(), heads(), shape.length, shape.length, shape.dim, this->problem_.scale, true};
  }
  auto pieces(const ::ch19::Transport& transport) const {
    return ::ch19::pieces_of(::ch19::layout_of(kSchedule), this->shape_.length, kRanks,
                             transport.rank());
  }
  ::ch19::Part mine(const ::ch19::Transport& transport, const std::vector<float>& whole) const {
    return ::ch19::cut(whole, pieces(transport), heads(), this->shape_.length, this->shape_.dim);
  }
  // The ranks have different rows.
  void give_back(const ::ch19::Transport& transport, const ::ch19::Part& part,
                 std::vector<float>& whole) const {
    ::ch19::put(whole, part, pieces(transport), heads(), this->shape_.length, this->shape_.dim);
  }

  ::ch19::State states_[kRanks];
};

}  // namespace fa::ch20

#pragma once
// Which key stands where in V, so that P can stay where it is.

#include "common/backend.hpp"

namespace FA_BACKEND::ch23 {

// [anchor: key_of_slot]
// Of 16 consecutive keys a lane has, in S, keys 2 q, 2 q + 1, 2 q + 8 and 2 q + 9, q = lane % 4; as
// operand A it must bring four consecutive slots, 4 q to 4 q + 3. P stays, and V's keys come in
// that order. The key that stands in `slot`:
FA_HOST_DEVICE constexpr int key_of_slot(int slot) {
  return slot / 16 * 16 + slot % 4 / 2 * 8 + slot % 16 / 4 * 2 + slot % 2;
}
// [/anchor: key_of_slot]

}  // namespace FA_BACKEND::ch23

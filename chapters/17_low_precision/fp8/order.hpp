#pragma once
// Which key stands where in V, so that P can stay where it is.

#include "common/backend.hpp"

namespace FA_BACKEND::ch17_fp8 {

// [anchor: key_of_slot]
// Of 16 keys in a row a lane of the product S has 2 q, 2 q + 1, 2 q + 8 and 2 q + 9, q = lane % 4;
// of operand A of the next product it must bring four neighbours, 4 q to 4 q + 3. A sum has no
// order: V's keys change places alike. The key that stands in `slot`:
FA_HOST_DEVICE constexpr int key_of_slot(int slot) {
  return slot / 16 * 16 + slot % 4 / 2 * 8 + slot % 16 / 4 * 2 + slot % 2;
}
// [/anchor: key_of_slot]

}  // namespace FA_BACKEND::ch17_fp8

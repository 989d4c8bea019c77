#pragma once
// The order of V's keys that lets P stay in its registers.

#include "common/backend.hpp"

namespace FA_BACKEND::ch23 {

// [anchor: key_of_slot]
// A lane has keys 2 q, 2 q + 1, 2 q + 8 and 2 q + 9 of every 16 keys of S, with q = lane % 4.
// As operand A it must pass four consecutive slots, 4 q to 4 q + 3. P stays in place, and V's
// keys are stored in that order. Returns the key that is stored in `slot`.
FA_HOST_DEVICE constexpr int key_of_slot(int slot) {
  return slot / 16 * 16 + slot % 4 / 2 * 8 + slot % 16 / 4 * 2 + slot % 2;
}
// [/anchor: key_of_slot]

}  // namespace FA_BACKEND::ch23

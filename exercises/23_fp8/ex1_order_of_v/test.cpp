#include <doctest/doctest.h>

#include <order_of_v.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// The columns that a lane of a row packs, tile after tile.
static int packed(int slot) {
  const int lane = slot % 16 / 4, byte = slot % 4, a_register = slot / 16;
  const int tile = a_register * 2 + byte / 2;
  return tile * 8 + lane * 2 + byte % 2;
}

// The function, with changes.
struct Known {
  const char* name;
  int (*key_at)(int slot);
  const char* explanation;
};

static int inverse(int slot) {
  for (int other = 0; other < 32; ++other)
    if (packed(other) == slot) return other;
  return -1;
}

static const std::vector<Known>& all_known() {
  static const std::vector<Known> known = {
      {"keys-in-their-order", [](int slot) { return slot; },
       "V is in the order of the keys, and P is not: a lane has two columns of each tile, and "
       "fills four consecutive slots"},
      {"the-other-way-round", inverse,
       "this is the slot of a key. They ask for the key in a slot, which is the inverse"},
      {"second-half-forgotten", [](int slot) { return packed(slot % 16); },
       "slots 16 to 31 got the keys of the first half again"},
      {"tiles-exchanged", [](int slot) { return packed(slot ^ 2); },
       "the two tiles of a half are exchanged: the first two of four slots are of the first tile"},
      {"halves-exchanged", [](int slot) { return packed(slot ^ 16); },
       "the halves are exchanged: a[0] has tiles 0 and 1"},
      {"columns-exchanged", [](int slot) { return packed(slot ^ 1); },
       "the two columns of a lane are exchanged: the even one comes first"},
      {"half-of-eight", [](int slot) { return slot / 16 * 8 + packed(slot % 16); },
       "the second half was taken to begin at key 8. Two tiles are in a half, so at key 16"},
      {"tile-of-four",
       [](int slot) { return slot / 16 * 16 + slot % 4 / 2 * 4 + slot % 16 / 4 * 2 + slot % 2; },
       "the second tile was taken to begin 4 keys after the first. A tile has 8 columns"},
      {"two-lanes-forgotten", [](int slot) { return packed(slot / 16 * 16 + slot % 8); },
       "four lanes have a row. After two of them it was lane 0 again"},
      {"lane-goes-on", [](int slot) { return packed(slot) + slot / 16 * 8; },
       "t counts to 7 in the second half, as slot / 4 does. The four lanes come again, so t is "
       "slot % 16 / 4"},
      {"every-second-tile",
       [](int slot) {
         const int lane = slot % 16 / 4, tile = slot % 4 / 2 * 2 + slot / 16;
         return tile * 8 + lane * 2 + slot % 2;
       },
       "a[0] was taken to have tiles 0 and 2, and a[2] tiles 1 and 3. The order is tile after "
       "tile"},
      {"pairs-torn-apart",
       [](int slot) {
         const int lane = slot % 16 / 4;
         return slot / 16 * 16 + slot % 2 * 8 + lane * 2 + slot % 4 / 2;
       },
       "the two columns of a tile were torn apart: they are neighbours in a register"},
      {"one-column-of-each-tile",
       [](int slot) { return slot % 4 * 8 + slot % 16 / 4 * 2 + slot / 16; },
       "each of four slots was taken from another tile. A lane has two columns of each"},
      {"lane-counts-four",
       [](int slot) { return slot / 16 * 16 + slot % 4 / 2 * 8 + slot % 16 / 4 * 4 + slot % 2; },
       "lane t was given the columns beginning at 4t. It has columns 2t and 2t + 1 of eight"},
  };
  return known;
}

template <class KeyAt>
static Numbers listed(KeyAt key_at, int begin, int end) {
  Numbers keys;
  for (int slot = begin; slot < end; ++slot) keys.push_back(key_at(slot));
  return keys;
}

static void check_slots(int begin, int end) {
  std::vector<exercise::Mistake> mistakes;
  for (const Known& one : all_known())
    mistakes.push_back({one.name, listed(one.key_at, begin, end), one.explanation});
  exercise::Output output{"key_at", 4, 0};
  for (int slot = begin; slot < end; ++slot)
    output.names.push_back("key_at(" + std::to_string(slot) + ")");
  exercise::check_output(output, listed(key_at, begin, end), listed(packed, begin, end), mistakes);
}

TEST_CASE("lane 0's first register") { check_slots(0, 4); }
TEST_CASE("a[0] of all lanes") { check_slots(0, 16); }
TEST_CASE("all 32 slots") { check_slots(0, 32); }

// One row of P, whose four lanes pack what they have, times V in the learner's order.
template <class KeyAt>
static Numbers product(KeyAt key_at) {
  std::vector<int> P(32), V(32 * 8);
  for (int key = 0; key < 32; ++key) {
    P[key] = key * key % 31 + 1;
    for (int d = 0; d < 8; ++d) V[key * 8 + d] = (key * 7 + d * 5) % 23 - 11;
  }
  Numbers row(8);
  for (int slot = 0; slot < 32; ++slot) {
    const int key = key_at(slot);
    const bool exists = key >= 0 && key < 32;
    for (int d = 0; d < 8; ++d) row[d] += P[packed(slot)] * (exists ? V[key * 8 + d] : 1000);
  }
  return row;
}

TEST_CASE("a row of P @ V") {
  std::vector<exercise::Mistake> mistakes;
  for (const Known& one : all_known())
    mistakes.push_back({one.name, product(one.key_at), one.explanation});
  exercise::check_output({"o", 0, 0}, product(key_at), product(packed), mistakes);
}

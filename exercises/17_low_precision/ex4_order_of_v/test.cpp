#include <doctest/doctest.h>

#include <order_of_v.hpp>
#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

// What a lane of a row packs: its columns, tile after tile.
static int packed(int place) {
  const int lane = place % 16 / 4, byte = place % 4, a_register = place / 16;
  const int tile = a_register * 2 + byte / 2;
  return tile * 8 + lane * 2 + byte % 2;
}

// The function as people write it.
struct Known {
  const char* name;
  int (*key_at)(int place);
  const char* explanation;
};

static int inverse(int place) {
  for (int other = 0; other < 32; ++other)
    if (packed(other) == place) return other;
  return -1;
}

static const std::vector<Known>& all_known() {
  static const std::vector<Known> known = {
      {"keys-in-their-order", [](int place) { return place; },
       "V stands in the order of the keys, and P does not: a lane has two columns of each tile, "
       "and "
       "fills four places in a row"},
      {"the-other-way-round", inverse,
       "this is the place of a key; they ask for the key at a place, which is the inverse"},
      {"second-half-forgotten", [](int place) { return packed(place % 16); },
       "places 16 to 31 got the keys of the first half again"},
      {"tiles-exchanged", [](int place) { return packed(place ^ 2); },
       "the two tiles of a half are exchanged: the first two of four places are of the first tile"},
      {"halves-exchanged", [](int place) { return packed(place ^ 16); },
       "the halves are exchanged: a[0] has tiles 0 and 1"},
      {"every-second-tile",
       [](int place) {
         const int lane = place % 16 / 4, tile = place % 4 / 2 * 2 + place / 16;
         return tile * 8 + lane * 2 + place % 2;
       },
       "a[0] was taken to have tiles 0 and 2, and a[2] tiles 1 and 3; it is tile after tile"},
      {"pairs-torn-apart",
       [](int place) {
         const int lane = place % 16 / 4;
         return place / 16 * 16 + place % 2 * 8 + lane * 2 + place % 4 / 2;
       },
       "the two columns of a tile were torn apart: they are neighbours in a register"},
      {"one-column-of-each-tile",
       [](int place) { return place % 4 * 8 + place % 16 / 4 * 2 + place / 16; },
       "each of four places was taken from another tile; a lane has two columns of each"},
      {"lane-counts-four",
       [](int place) {
         return (place / 16 * 16 + place % 4 / 2 * 8 + place % 16 / 4 * 4 + place % 2) % 32;
       },
       "lane t was taken to have columns from 4t on; of eight columns it has 2t and 2t + 1"},
  };
  return known;
}

template <class KeyAt>
static Numbers listed(KeyAt key_at, int begin, int end) {
  Numbers keys;
  for (int place = begin; place < end; ++place) keys.push_back(key_at(place));
  return keys;
}

static void check_places(int begin, int end) {
  std::vector<exercise::Mistake> mistakes;
  for (const Known& one : all_known())
    mistakes.push_back({one.name, listed(one.key_at, begin, end), one.explanation});
  exercise::check_output({"key_at", 4, 0}, listed(key_at, begin, end), listed(packed, begin, end),
                         mistakes);
}

TEST_CASE("lane 0's first register") { check_places(0, 4); }
TEST_CASE("a[0] of all lanes") { check_places(0, 16); }
TEST_CASE("all 32 places") { check_places(0, 32); }

// One row of P, whose four lanes pack what they have, times V in the learner's order.
template <class KeyAt>
static Numbers product(KeyAt key_at) {
  std::vector<int> P(32), V(32 * 8);
  for (int key = 0; key < 32; ++key) {
    P[key] = key * key % 31 + 1;
    for (int d = 0; d < 8; ++d) V[key * 8 + d] = (key * 7 + d * 5) % 23 - 11;
  }
  Numbers row(8);
  for (int place = 0; place < 32; ++place) {
    const int key = key_at(place);
    const bool exists = key >= 0 && key < 32;
    for (int d = 0; d < 8; ++d) row[d] += P[packed(place)] * (exists ? V[key * 8 + d] : 1000);
  }
  return row;
}

TEST_CASE("a row of P @ V") {
  std::vector<exercise::Mistake> mistakes;
  for (const Known& one : all_known())
    mistakes.push_back({one.name, product(one.key_at), one.explanation});
  exercise::check_output({"o", 0, 0}, product(key_at), product(packed), mistakes);
}

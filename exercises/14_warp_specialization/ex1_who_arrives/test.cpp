#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <who_arrives.hpp>

#include "exercises/support/warp.hpp"

using exercise::Numbers;
using namespace emulator;

// The right functions, and each mistake as a change to them.
struct Way {
  exercise::Changes is;

  static int speakers(const Cast& c) { return c.each_warp ? 4 : 1; }

  int full_count(const Cast& c) const {
    return is("full-copies")                  ? c.copies
           : is("full-all-copies")            ? c.loaders * c.copies
           : is("full-loaders-and-copies")    ? c.loaders * (1 + c.copies)
           : is("full-1")                     ? 1
           : is("full-consumers")             ? c.consumers
           : is("full-arrivals")              ? c.consumers * speakers(c)
           : is("full-threads")               ? c.consumers * 128
           : is("full-loaders-and-consumers") ? c.loaders + c.consumers
           : is("full-loaders-and-arrivals")  ? c.loaders + c.consumers * speakers(c)
           : is("full-loaders-and-threads")   ? c.loaders + c.consumers * 128
           : is("full-128")                   ? 128
           : is("full-warpgroups-of-loaders") ? c.loaders * 128
                                              : c.loaders;
  }
  int empty_count(const Cast& c) const {
    const int right = c.consumers * speakers(c);
    return is("empty-1")                      ? 1
           : is("empty-loaders")              ? c.loaders
           : is("empty-threads")              ? c.consumers * 128
           : is("empty-128")                  ? 128
           : is("empty-warps")                ? c.consumers * 4
           : is("empty-consumers")            ? c.consumers
           : is("empty-exchanged")            ? c.consumers * (c.each_warp ? 1 : 4)
           : is("empty-one-consumer-more")    ? right + speakers(c)
           : is("empty-one-more")             ? right + 1
           : is("empty-loaders-and-arrivals") ? right + c.loaders
           : is("empty-one-consumer-less")    ? right - speakers(c)
           : is("empty-one-less")             ? right - 1
           : is("empty-products")             ? right * c.products
                                              : right;
  }
  bool arrives(const Cast& c, int thread, int product) const {
    const bool of_warps = is("warps-arrive")        ? true
                          : is("warpgroups-arrive") ? false
                                                    : c.each_warp != is("exchanged-arrive");
    const bool speaks = is("all-arrive")                      ? true
                        : is("none-arrives")                  ? false
                        : is("one-arrives")                   ? thread == 128
                        : is("first-arrives") && !c.each_warp ? thread == 128
                        : is("first-group-arrives") && thread >= 256
                            ? false
                            : thread % (of_warps ? 32 : 128) == 0;
    return speaks && (is("after-each") || product == (is("after-first")       ? 0
                                                      : is("behind-the-last") ? c.products
                                                                              : c.products - 1));
  }
};

// The learner's answer, to be called as a Way is.
struct Answer {
  int full_count(const Cast& cast) const { return ::full_count(cast); }
  int empty_count(const Cast& cast) const { return ::empty_count(cast); }
  bool arrives(const Cast& c, int thread, int product) const {
    return ::arrives(c, thread, product);
  }
};

static const exercise::Table MISTAKES(R"(
copies-for-arrivals: full-copies; full-all-copies; full-loaders-and-copies
  full counts the copies. A copy brings bytes, and the thread that expects them arrives once, for all
  copies that it issues
always-one: {,full-1} empty-1; full-1
  one arrival is not enough where several arrive: the phase ends with the first of them
waiters-counted: {full-consumers,full-arrivals,full-threads} {,empty-loaders}; empty-loaders
  the count is of those who wait there. An mbarrier counts arrivals: loaders arrive at full,
  consumers at empty
loaders-and-consumers: full-loaders-and-consumers; full-loaders-and-arrivals;
    full-loaders-and-threads
  full counts the consumers, too. They wait there, and only loaders arrive
threads-counted: {full-128,full-warpgroups-of-loaders} {,empty-threads,empty-128}; empty-threads;
    empty-128
  all threads of a warpgroup are counted, and not all of them arrive: the phase never ends
warps-for-warpgroups: empty-warps; warps-arrive
  four warps of each consumer are counted, or arrive, even where one thread arrives for the
  warpgroup
warpgroups-for-warps: empty-consumers; warpgroups-arrive
  one arrival of each consumer, even where each of its four warps arrives
warp-and-warpgroup-exchanged: empty-exchanged; exchanged-arrive
  each_warp is taken the wrong way: true, and each of a consumer's four warps arrives
producer-counted: empty-one-consumer-more; empty-one-more; empty-loaders-and-arrivals
  the producer is counted among those who arrive at empty. It waits there
one-arrival-too-few: empty-one-consumer-less; empty-one-less
  empty counts one consumer, or one arrival, less than come: the producer overwrites what the last
  one reads
products-counted: empty-products
  empty counts an arrival for each product. A consumer arrives once per tile, after the last product
arrives-for-each-product: after-each
  a consumer arrives after each product. Once per tile is enough, after the last product
arrives-too-early: after-first
  a consumer arrives after its first product, but reads the tile again for the next
nobody-arrives: none-arrives
  no thread of a consumer arrives: thread 0 is the producer's, a consumer's are 128 and more
product-behind-the-last: behind-the-last
  a consumer arrives after product number `products`, and there is none: the last is products - 1
first-consumer-only: first-arrives; first-group-arrives
  only the first consumer arrives, thread 128. Each one does, and the first thread of a warpgroup is
  a multiple of 128
every-thread-arrives: all-arrive
  every thread arrives. One speaks for its warp or its warpgroup, as the cast says
one-thread-of-the-block: one-arrives {,empty-1}
  one thread arrives for all consumers. It has waited for its own product, and each consumer's first
  thread, or that of each of its warps, arrives
)");

const Cast kCasts[] = {{1, 2, 2, 1, false},
                       {2, 1, 2, 2, false},
                       {2, 1, 3, 1, true},
                       {1, 1, 3, 3, true},
                       {2, 3, 2, 2, true}};

// Both counts, and for each thread of a consumer and each product whether it arrives.
template <class Functions>
static Numbers numbers(const Cast& c, const Functions& functions) {
  Numbers all = {double(functions.full_count(c)), double(functions.empty_count(c))};
  for (int thread = 128; thread < 128 * (1 + c.consumers); ++thread)
    for (int product = 0; product < c.products; ++product)
      all.push_back(functions.arrives(c, thread, product));
  // If no product lets a thread arrive, the answer may count them from 1.
  const bool nobody = std::count(all.begin() + 2, all.end(), 0.0) == std::ssize(all) - 2;
  all.push_back(nobody && functions.arrives(c, 128, c.products));
  return all;
}

static bool arrives_in(const Numbers& all, const Cast& c, int thread, int product) {
  return all[2 + (thread - 128) * c.products + product] != 0;
}

// True if a phase of each mbarrier takes what comes, and each consumer arrives after its last
// product. More arrivals than the cast needs are slow, but not wrong.
static bool works(const Cast& c, const Numbers& all) {
  for (int consumer = 0; consumer < c.consumers; ++consumer) {
    bool last = false;
    for (int thread = 128 * (1 + consumer); thread < 128 * (2 + consumer); ++thread)
      last |= arrives_in(all, c, thread, c.products - 1);
    if (!last) return false;
  }
  return all[0] == c.loaders && all[1] == std::count(all.begin() + 2, all.end() - 1, 1.0);
}

// Runs the configuration with one buffer and NUM_TILES tiles. Returns the hazards.
static std::string play(const Cast& c, const Numbers& all, uint64_t schedule = 0) {
  constexpr int NUM_TILES = 6, ROWS = 8;
  constexpr uint32_t BOX_BYTES = ROWS * 128;
  if (all[0] < 1 || all[1] < 1) return "an mbarrier counts one arrival or more\n";
  if (all[0] >= 1 << 20 || all[1] >= 1 << 20) return "an mbarrier counts to 1048575\n";
  fa::simt::Buffer<bf16> K(ROWS * 64, "K");
  const TensorMap map =
      make_tensor_map(K.data(), {64, ROWS}, {128}, {64, ROWS}, Swizzle::bytes_128);
  fa::simt::Config config;
  config.schedule_seed = schedule;
  config.counters = false;
  const int boxes = c.loaders * c.copies;
  const uint32_t mbarriers = boxes * BOX_BYTES;
  const auto block = [&] {
    const auto box = [&](int i) { return dynamic_smem() + i * BOX_BYTES; };
    const uint32_t full = dynamic_smem() + mbarriers, empty = full + 8;
    const int thread = thread_index(), loader = thread / 32;
    if (thread == 0) {
      mbarrier_init(full, static_cast<int>(all[0]));
      mbarrier_init(empty, static_cast<int>(all[1]));
      fence_mbarrier_init();
    }
    block_sync();
    if (thread < 128 && (thread % 32 != 0 || loader >= c.loaders)) return;
    for (int tile = 0; tile < NUM_TILES; ++tile) {
      if (thread < 128) {
        mbarrier_wait(empty, tile % 2 ^ 1);
        mbarrier_arrive_expect_tx(full, c.copies * BOX_BYTES);
        for (int copy = 0; copy < c.copies; ++copy)
          tma_load_2d(box(loader * c.copies + copy), map, 0, 0, full);
        continue;
      }
      mbarrier_wait(full, tile % 2);
      for (int product = 0; product < c.products; ++product) {
        float S_rmem[1][4];
        uint32_t Q_rmem[4] = {};
        wgmma_fence();
        for (int i = 0; i < boxes; ++i)
          wgmma<bf16>(S_rmem, Q_rmem, wgmma_descriptor(box(i), 16, 1024, Swizzle::bytes_128),
                      i > 0);
        wgmma_commit();
        wgmma_wait<0>(S_rmem);
        if (arrives_in(all, c, thread, product)) mbarrier_arrive(empty);
      }
    }
  };
  return exercise::hazards(
      exercise::run_block(128 * (1 + c.consumers), mbarriers + 16, block, config));
}

static void check_cast(const Cast& c) {
  std::vector<std::string> labels = {"full_count", "empty_count"};
  const auto arrives = [](int thread, int product) {
    return "arrives(" + std::to_string(thread) + ", " + std::to_string(product) + ")";
  };
  for (int thread = 128; thread < 128 * (1 + c.consumers); ++thread)
    for (int product = 0; product < c.products; ++product)
      labels.push_back(arrives(thread, product));
  labels.push_back(arrives(128, c.products));

  const Numbers got = numbers(c, Answer{}), right = numbers(c, Way{});
  std::string seen = "loaders " + std::to_string(c.loaders) + ", copies of each " +
                     std::to_string(c.copies) + ", consumers " + std::to_string(c.consumers) +
                     ", products " + std::to_string(c.products) + "; the first thread of each " +
                     (c.each_warp ? "warp" : "warpgroup") + " arrives";
  const std::string hazards = got == right ? "" : play(c, got);
  if (!works(c, got)) {
    if (!hazards.empty()) seen += "\nthe emulator, one buffer and six tiles:\n" + hazards;
  } else if (got != right) {
    static int remarks = 0;
    if (remarks++ == 0)
      MESSAGE(
          "the counts match the arrivals, so it works, but other threads arrive than the cast "
          "says");
    CHECK(hazards == "");
  }
  INFO(seen);
  // All that a mistake must explain. Functions that work show what the right ones do.
  exercise::check_output<Way, Answer>({"cast", 0, 0, labels}, MISTAKES, [&](const auto& functions) {
    const Numbers all = numbers(c, functions);
    return works(c, all) ? right : all;
  });
}

TEST_CASE("one loader copies K and V, two consumers") { check_cast(kCasts[0]); }
TEST_CASE("a loader for K, one for V; two products") { check_cast(kCasts[1]); }
TEST_CASE("three consumers, each warp arrives") { check_cast(kCasts[2]); }
TEST_CASE("three consumers, three products, each warp arrives") { check_cast(kCasts[3]); }
TEST_CASE("two loaders, three copies each, two products") { check_cast(kCasts[4]); }

// The emulator agrees. (Mistakes run only in the smaller configurations, to save time.)
TEST_CASE("the casts") {
  for (const Cast& c : kCasts) {
    for (uint64_t schedule = 0; schedule < 3; ++schedule)
      CHECK(play(c, numbers(c, Way{}), schedule) == "");
    if (c.consumers * c.products > 4) continue;
    // Every thread arrives, and all of them are counted, which works, too.
    const Numbers all = numbers(c, Way{exercise::Changes("all-arrive empty-threads")});
    CHECK(works(c, all));
    CHECK(play(c, all) == "");
    std::set<Numbers> played;
    for (const exercise::Row& row : MISTAKES) {
      const Numbers wrong = numbers(c, Way{row.changes});
      if (!played.insert(wrong).second) continue;
      CAPTURE(row.name);
      CHECK((play(c, wrong) == "") == works(c, wrong));
    }
  }
}

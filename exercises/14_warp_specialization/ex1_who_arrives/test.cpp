#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <who_arrives.hpp>

#include "exercises/support/warp.hpp"

using namespace emulator;

// The three functions; a mistake changes some of them.
using Count = int (*)(const Cast& cast);
using Arrives = bool (*)(const Cast& cast, int thread, int product);
struct Functions {
  Count full, empty;
  Arrives arrives;
};
static int speakers(const Cast& c) { return c.each_warp ? 4 : 1; }
static bool speaks(const Cast& c, int thread) { return thread % (c.each_warp ? 32 : 128) == 0; }

const Functions kRight = {[](const Cast& c) { return c.loaders; },
                          [](const Cast& c) { return c.consumers * speakers(c); },
                          [](const Cast& c, int thread, int product) {
                            return speaks(c, thread) && product == c.products - 1;
                          }};

struct Wrong {
  const char *name, *explanation;
  std::vector<Count> full, empty;
  std::vector<Arrives> arrives;
};
const std::vector<Wrong> kWrong = {
    {"copies-for-arrivals",
     "full counts the copies. A copy brings bytes, and the thread that expects them arrives once, "
     "for all copies that it issues",
     {[](const Cast& c) { return c.copies; }, [](const Cast& c) { return c.loaders * c.copies; },
      [](const Cast& c) { return c.loaders * (1 + c.copies); }},
     {},
     {}},
    {"always-one",
     "one arrival is not enough where several arrive: the phase ends with the first of them",
     {[](const Cast&) { return 1; }},
     {[](const Cast&) { return 1; }},
     {}},
    {"waiters-counted",
     "the count is of those who wait there; an mbarrier counts arrivals: loaders arrive at full, "
     "consumers at empty",
     {[](const Cast& c) { return c.consumers; },
      [](const Cast& c) { return c.consumers * speakers(c); },
      [](const Cast& c) { return c.consumers * 128; }},
     {[](const Cast& c) { return c.loaders; }},
     {}},
    {"loaders-and-consumers",
     "full counts the consumers, too. They wait there, and only loaders arrive",
     {[](const Cast& c) { return c.loaders + c.consumers; },
      [](const Cast& c) { return c.loaders + c.consumers * speakers(c); },
      [](const Cast& c) { return c.loaders + c.consumers * 128; }},
     {},
     {}},
    {"threads-counted",
     "all threads of a warpgroup are counted, and not all of them arrive: the phase never ends",
     {[](const Cast&) { return 128; }, [](const Cast& c) { return c.loaders * 128; }},
     {[](const Cast& c) { return c.consumers * 128; }, [](const Cast&) { return 128; }},
     {}},
    {"warps-for-warpgroups",
     "four warps of each consumer are counted, or arrive, even where one thread arrives for the "
     "warpgroup",
     {},
     {[](const Cast& c) { return c.consumers * 4; }},
     {[](const Cast& c, int thread, int product) {
       return thread % 32 == 0 && product == c.products - 1;
     }}},
    {"warpgroups-for-warps",
     "one arrival of each consumer, even where each of its four warps arrives",
     {},
     {[](const Cast& c) { return c.consumers; }},
     {[](const Cast& c, int thread, int product) {
       return thread % 128 == 0 && product == c.products - 1;
     }}},
    {"warp-and-warpgroup-exchanged",
     "each_warp is taken the wrong way: true, and each of a consumer's four warps arrives",
     {},
     {[](const Cast& c) { return c.consumers * (c.each_warp ? 1 : 4); }},
     {[](const Cast& c, int thread, int product) {
       return thread % (c.each_warp ? 128 : 32) == 0 && product == c.products - 1;
     }}},
    {"producer-counted",
     "the producer is counted among those who arrive at empty; it waits there",
     {},
     {[](const Cast& c) { return (c.consumers + 1) * speakers(c); },
      [](const Cast& c) { return c.consumers * speakers(c) + 1; },
      [](const Cast& c) { return c.consumers * speakers(c) + c.loaders; }},
     {}},
    {"one-arrival-too-few",
     "empty counts one consumer, or one arrival, less than come: the producer overwrites what the "
     "last one reads",
     {},
     {[](const Cast& c) { return (c.consumers - 1) * speakers(c); },
      [](const Cast& c) { return c.consumers * speakers(c) - 1; }},
     {}},
    {"products-counted",
     "empty counts an arrival for each product. A consumer arrives once per tile, after the last "
     "product",
     {},
     {[](const Cast& c) { return c.consumers * speakers(c) * c.products; }},
     {}},
    {"arrives-for-each-product",
     "a consumer arrives after each product. Once per tile is enough, after the last product",
     {},
     {[](const Cast& c) { return c.consumers * speakers(c) * c.products; }},
     {[](const Cast& c, int thread, int) { return speaks(c, thread); }}},
    {"arrives-too-early",
     "a consumer arrives after its first product, but reads the tile again for the next",
     {},
     {},
     {[](const Cast& c, int thread, int product) { return speaks(c, thread) && product == 0; }}},
    {"nobody-arrives",
     "no thread of a consumer arrives: thread 0 is the producer's, a consumer's are 128 and more",
     {},
     {},
     {[](const Cast&, int, int) { return false; }}},
    {"product-behind-the-last",
     "a consumer arrives after product number `products`, and there is none: the last is products "
     "- 1",
     {},
     {},
     {[](const Cast& c, int thread, int product) {
       return speaks(c, thread) && product == c.products;
     }}},
    {"first-consumer-only",
     "only the first consumer arrives, thread 128; each one does, and the first thread of a "
     "warpgroup is a multiple of 128",
     {},
     {},
     {[](const Cast& c, int thread, int product) {
        return (c.each_warp ? thread % 32 == 0 : thread == 128) && product == c.products - 1;
      },
      [](const Cast& c, int thread, int product) {
        return speaks(c, thread) && thread < 256 && product == c.products - 1;
      }}},
    {"every-thread-arrives",
     "every thread arrives; one speaks for its warp or its warpgroup, as the cast says",
     {},
     {[](const Cast& c) { return c.consumers * 128; }},
     {[](const Cast& c, int, int product) { return product == c.products - 1; }}},
    {"one-thread-of-the-block",
     "one thread arrives for all consumers; it has waited for its own product, and each consumer's "
     "first thread, or that of each of its warps, arrives",
     {},
     {[](const Cast&) { return 1; }},
     {[](const Cast& c, int thread, int product) {
       return thread == 128 && product == c.products - 1;
     }}},
};

const Cast kCasts[] = {{1, 2, 2, 1, false},
                       {2, 1, 2, 2, false},
                       {2, 1, 3, 1, true},
                       {1, 1, 3, 3, true},
                       {2, 3, 2, 2, true}};

static exercise::Numbers numbers(const Cast& c, const Functions& functions) {
  exercise::Numbers all = {double(functions.full(c)), double(functions.empty(c))};
  for (int thread = 128; thread < 128 * (1 + c.consumers); ++thread)
    for (int product = 0; product < c.products; ++product)
      all.push_back(functions.arrives(c, thread, product));
  // Whom no product lets arrive may have counted them from 1.
  const bool nobody = std::count(all.begin() + 2, all.end(), 0.0) == std::ssize(all) - 2;
  all.push_back(nobody && functions.arrives(c, 128, c.products));
  return all;
}

static std::vector<std::string> labels(const Cast& c) {
  std::vector<std::string> all = {"full_count", "empty_count"};
  for (int thread = 128; thread < 128 * (1 + c.consumers); ++thread)
    for (int product = 0; product < c.products; ++product)
      all.push_back("arrives(" + std::to_string(thread) + ", " + std::to_string(product) + ")");
  all.push_back("arrives(128, " + std::to_string(c.products) + ")");
  return all;
}

// True if a phase of each mbarrier takes what comes, and each consumer arrives after its last
// product. More arrivals than the cast needs are slow, but not wrong.
static bool works(const Cast& c, const Functions& functions) {
  int arrivals = 0;
  for (int consumer = 0; consumer < c.consumers; ++consumer) {
    bool last = false;
    for (int thread = 128 * (1 + consumer); thread < 128 * (2 + consumer); ++thread)
      for (int product = 0; product < c.products; ++product) {
        const bool arrives = functions.arrives(c, thread, product);
        arrivals += arrives;
        last |= arrives && product == c.products - 1;
      }
    if (!last) return false;
  }
  return functions.full(c) == c.loaders && functions.empty(c) == arrivals;
}

// All that a mistake must explain. Functions that work show what the right ones do.
static exercise::Numbers shown(const Cast& c, const Functions& functions) {
  return numbers(c, works(c, functions) ? kRight : functions);
}

// Each mistake in each choice of the functions, once.
struct Variant {
  const Wrong* wrong;
  Functions functions;
};

static const std::vector<Variant>& variants() {
  static std::vector<Variant> all;
  if (!all.empty()) return all;
  std::set<exercise::Numbers> known;
  const auto add = [&](const Wrong* wrong, const Functions& functions) {
    exercise::Numbers sum;
    for (const Cast& c : kCasts)
      for (const double number : shown(c, functions)) sum.push_back(number);
    if (known.insert(sum).second && wrong) all.push_back({wrong, functions});
  };
  add(nullptr, kRight);
  for (const Wrong& wrong : kWrong) {
    const auto options = [](auto right, auto formulas) {
      formulas.insert(formulas.begin(), right);
      return formulas;
    };
    for (const Count full : options(kRight.full, wrong.full))
      for (const Count empty : options(kRight.empty, wrong.empty))
        for (const Arrives arrives : options(kRight.arrives, wrong.arrives))
          add(&wrong, {full, empty, arrives});
  }
  return all;
}

// Runs the configuration with one buffer and NUM_TILES tiles. Returns the hazards.
static std::string play(const Cast& c, const Functions& functions, uint64_t schedule = 0) {
  constexpr int NUM_TILES = 6, ROWS = 8;
  constexpr uint32_t BOX_BYTES = ROWS * 128;
  const int full_arrivals = functions.full(c), empty_arrivals = functions.empty(c);
  if (full_arrivals < 1 || empty_arrivals < 1) return "an mbarrier counts one arrival or more\n";
  if (full_arrivals >= 1 << 20 || empty_arrivals >= 1 << 20)
    return "an mbarrier counts to 1048575\n";
  fa::simt::Buffer<bf16> K(ROWS * 64, "K");
  const TensorMap map =
      make_tensor_map(K.data(), {64, ROWS}, {128}, {64, ROWS}, Swizzle::bytes_128);
  fa::simt::Config config;
  config.schedule_seed = schedule;
  config.counters = false;
  const int boxes = c.loaders * c.copies;
  const uint32_t mbarriers = boxes * BOX_BYTES;
  const fa::simt::Report report = exercise::run_block(
      128 * (1 + c.consumers), mbarriers + 16,
      [&] {
        const auto box = [&](int i) { return dynamic_smem() + i * BOX_BYTES; };
        const uint32_t full = dynamic_smem() + mbarriers, empty = full + 8;
        const int thread = thread_index();
        if (thread == 0) {
          mbarrier_init(full, full_arrivals);
          mbarrier_init(empty, empty_arrivals);
          fence_mbarrier_init();
        }
        block_sync();
        for (int tile = 0; tile < NUM_TILES; ++tile) {
          const int parity = tile % 2;
          if (thread < 128) {
            const int loader = thread / 32;
            if (thread % 32 != 0 || loader >= c.loaders) return;
            mbarrier_wait(empty, parity ^ 1);
            mbarrier_arrive_expect_tx(full, c.copies * BOX_BYTES);
            for (int copy = 0; copy < c.copies; ++copy)
              tma_load_2d(box(loader * c.copies + copy), map, 0, 0, full);
            continue;
          }
          mbarrier_wait(full, parity);
          for (int product = 0; product < c.products; ++product) {
            float S_rmem[1][4];
            uint32_t Q_rmem[4] = {};
            wgmma_fence();
            for (int i = 0; i < boxes; ++i)
              wgmma<bf16>(S_rmem, Q_rmem, wgmma_descriptor(box(i), 16, 1024, Swizzle::bytes_128),
                          i > 0);
            wgmma_commit();
            wgmma_wait<0>(S_rmem);
            if (functions.arrives(c, thread, product)) mbarrier_arrive(empty);
          }
        }
      },
      config);
  return exercise::hazards(report);
}

static void check_cast(const Cast& c) {
  const Functions answer = {[](const Cast& cast) { return static_cast<int>(full_count(cast)); },
                            [](const Cast& cast) { return static_cast<int>(empty_count(cast)); },
                            [](const Cast& cast, int thread, int product) {
                              return static_cast<bool>(arrives(cast, thread, product));
                            }};
  const exercise::Numbers got = shown(c, answer), right = numbers(c, kRight);
  std::string seen = "loaders " + std::to_string(c.loaders) + ", copies of each " +
                     std::to_string(c.copies) + ", consumers " + std::to_string(c.consumers) +
                     ", products " + std::to_string(c.products) + "; the first thread of each " +
                     (c.each_warp ? "warp" : "warpgroup") + " arrives";
  if (got != right) {
    const std::string hazards = play(c, answer);
    if (!hazards.empty()) seen += "\nthe emulator, one buffer and six tiles:\n" + hazards;
  } else if (numbers(c, answer) != right) {
    static int remarks = 0;
    if (remarks++ == 0)
      MESSAGE(
          "the counts match the arrivals, so it works; but other threads arrive than the cast "
          "says");
    CHECK(play(c, answer) == "");
  }
  INFO(seen);
  std::vector<exercise::Mistake> mistakes;
  for (const Variant& variant : variants())
    mistakes.push_back(
        {variant.wrong->name, shown(c, variant.functions), variant.wrong->explanation});
  exercise::check_output({"cast", 0, 0, labels(c)}, got, right, mistakes);
}

TEST_CASE("one loader copies K and V, two consumers") { check_cast(kCasts[0]); }
TEST_CASE("a loader for K, one for V; two products") { check_cast(kCasts[1]); }
TEST_CASE("three consumers, each warp arrives") { check_cast(kCasts[2]); }
TEST_CASE("three consumers, three products, each warp arrives") { check_cast(kCasts[3]); }
TEST_CASE("two loaders, three copies each, two products") { check_cast(kCasts[4]); }

// The emulator agrees. (Mistakes run only in the smaller configurations, to save time.)
TEST_CASE("the casts") {
  for (const Cast& c : kCasts) {
    for (uint64_t schedule = 0; schedule < 3; ++schedule) CHECK(play(c, kRight, schedule) == "");
    if (c.consumers * c.products > 4) continue;
    // Every thread arrives, and all of them are counted: this works, too.
    const Functions all = {
        kRight.full, [](const Cast& cast) { return cast.consumers * 128; },
        [](const Cast& cast, int, int product) { return product == cast.products - 1; }};
    CHECK(works(c, all));
    CHECK(play(c, all) == "");
    std::set<exercise::Numbers> played;
    for (const Variant& variant : variants()) {
      if (!played.insert(numbers(c, variant.functions)).second) continue;
      CAPTURE(std::string(variant.wrong->name));
      CHECK((play(c, variant.functions) == "") == works(c, variant.functions));
    }
  }
}

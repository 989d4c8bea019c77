// Tensor maps, tensor copies and the async proxy.

#include <bit>
#include <string>

#include "common/error.hpp"
#include "common/simt/test_twins.hpp"

namespace {

using namespace emulator;
using fa::simt::Buffer;
using fa::simt::check_twins;
using fa::simt::Config;
using fa::simt::Report;

constexpr int kThreads = 64;
constexpr uint32_t kSmem = 4096;

TEST_CASE("a tensor map that cannot be is refused with a sentence") {
  alignas(16) static uint16_t data[64];
  const auto refuses = [&](const char* why, const void* p, std::initializer_list<int64_t> sizes,
                           std::initializer_list<int64_t> strides, std::initializer_list<int> box,
                           Swizzle swizzle = Swizzle::none) {
    CHECK_THROWS_WITH_AS(fa::make_tensor_box(p, 2, sizes, strides, box, swizzle),
                         doctest::Contains(why), fa::InputError);
  };
  fa::make_tensor_box(data, 2, {64, 2}, {128}, {64, 2}, Swizzle::bytes_128);
  fa::make_tensor_box(data, 2, {8, 1, 1, 1, 1}, {16, 16, 16, 16}, {8, 1, 1, 1, 1}, Swizzle::none);
  refuses("tensor map: 0 dimensions: 1 to 5", data, {}, {}, {});
  refuses("6 dimensions", data, {8, 1, 1, 1, 1, 1}, {16, 16, 16, 16, 16}, {8, 1, 1, 1, 1, 1});
  refuses("2 sizes need 1 strides and a box of as many sizes, not 0 and 2", data, {8, 8}, {},
          {8, 8});
  refuses("not 1 and 1", data, {8, 8}, {16}, {8});
  refuses("address is not a multiple of 16", data + 1, {8}, {}, {8});
  refuses("dimension 1: 0 elements", data, {8, 0}, {16}, {8, 1});
  refuses("dimension 0: 4294967297 elements", data, {(int64_t{1} << 32) + 1}, {}, {8});
  refuses("dimension 1: a stride of 24 bytes: it is a multiple of 16", data, {8, 2}, {24}, {8, 2});
  refuses("a stride of -16 bytes", data, {8, 2}, {-16}, {8, 2});
  refuses("a stride of 1099511627776 bytes", data, {8, 2}, {int64_t{1} << 40}, {8, 2});
  refuses("dimension 1: a box of 257", data, {8, 300}, {16}, {8, 257});
  refuses("dimension 0: a box of 0", data, {8}, {}, {0});
  refuses("rows have 8 bytes: a multiple of 16", data, {8}, {}, {4});
  refuses("rows have 256 bytes, where the swizzle has 128", data, {128}, {}, {128},
          Swizzle::bytes_128);
  refuses("rows have 64 bytes, where the swizzle has 128", data, {32}, {}, {32},
          Swizzle::bytes_128);
  refuses("where the swizzle has 32", data, {32}, {}, {32}, Swizzle::bytes_32);
}

TEST_CASE("the swizzle exchanges bits of the address") {
  CHECK(fa::swizzled(Swizzle::none, 0x3f0) == 0x3f0);
  CHECK(fa::swizzled(Swizzle::bytes_32, 0x080) == 0x090);
  CHECK(fa::swizzled(Swizzle::bytes_32, 0x100) == 0x100);
  CHECK(fa::swizzled(Swizzle::bytes_64, 0x180) == 0x1b0);
  CHECK(fa::swizzled(Swizzle::bytes_128, 0x380) == 0x3f0);
  CHECK(fa::swizzled(Swizzle::bytes_128, 0x7f0) == 0x780);
  for (const Swizzle s : {Swizzle::bytes_32, Swizzle::bytes_64, Swizzle::bytes_128}) {
    for (uint32_t a = 0; a < 4096; a += 16) CHECK(fa::swizzled(s, fa::swizzled(s, a)) == a);
  }
}

// Loads one box and copies the content of shared memory in order of addresses.
void load_one_box(const TensorMap map, int x, int y, int z, int w, uint16_t* out) {
  const uint32_t tile = dynamic_smem(), barrier = dynamic_smem() + kSmem - 8;
  if (thread_index() == 0) {
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(barrier, map.box.box_bytes());
    switch (map.box.rank) {
      case 1:
        tma_load_1d(tile, map, x, barrier);
        break;
      case 2:
        tma_load_2d(tile, map, x, y, barrier);
        break;
      case 3:
        tma_load_3d(tile, map, x, y, z, barrier);
        break;
      case 4:
        tma_load_4d(tile, map, x, y, z, w, barrier);
        break;
      default:
        tma_load_5d(tile, map, x, y, z, w, 0, barrier);
    }
  }
  block_sync();
  mbarrier_wait(barrier, 0);
  const int count = static_cast<int>(map.box.box_bytes() / 2);
  for (int i = thread_index(); i < count; i += kThreads) {
    store_global(out + i, load_shared<uint16_t>(tile + static_cast<uint32_t>(i) * 2));
  }
}

TEST_CASE("a box comes as the map says: swizzled, zeros outside the tensor, every rank") {
  Buffer<uint16_t> tensor(80 * 11 * 2 * 2 * 2, "tensor");
  struct Case {
    Swizzle swizzle;
    int row;  // elements per row of the box
    int x, y, z, w;
  };
  const Case cases[] = {
      {Swizzle::none, 32, 0, 0, 0, 0},        {Swizzle::none, 32, 56, 9, 1, 1},
      {Swizzle::bytes_128, 64, 0, 0, 0, 0},   {Swizzle::bytes_128, 64, 64, 8, 1, 0},
      {Swizzle::bytes_128, 64, -8, -5, 0, 0}, {Swizzle::bytes_64, 32, 48, 7, 0, 1},
      {Swizzle::bytes_32, 16, 16, 3, 1, 1},   {Swizzle::bytes_32, 16, -72, 0, 0, 0}};
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<uint16_t>(i * 7 + 1);
  const auto element = [&](const int(&at)[5]) -> uint16_t {
    const int sizes[] = {70, 11, 2, 2, 2};
    const int strides[] = {1, 80, 880, 1760, 3520};
    int offset = 0;
    for (int i = 0; i < 5; ++i) {
      if (at[i] < 0 || at[i] >= sizes[i]) return 0;
      offset += at[i] * strides[i];
    }
    return tensor[static_cast<size_t>(offset)];
  };
  for (const Case& c : cases) {
    for (int rank = 1; rank <= 5; ++rank) {
      CAPTURE(rank);
      CAPTURE(c.row);
      const auto make = [&]() -> TensorMap {
        const int64_t r = 160;
        const int n = c.row;
        switch (rank) {
          case 1:
            return make_tensor_map(tensor.data(), {70}, {}, {n}, c.swizzle);
          case 2:
            return make_tensor_map(tensor.data(), {70, 11}, {r}, {n, 8}, c.swizzle);
          case 3:
            return make_tensor_map(tensor.data(), {70, 11, 2}, {r, r * 11}, {n, 4, 2}, c.swizzle);
          case 4:
            return make_tensor_map(tensor.data(), {70, 11, 2, 2}, {r, r * 11, r * 22}, {n, 4, 2, 1},
                                   c.swizzle);
          default:
            return make_tensor_map(tensor.data(), {70, 11, 2, 2, 2}, {r, r * 11, r * 22, r * 44},
                                   {n, 2, 2, 1, 2}, c.swizzle);
        }
      };
      const TensorMap map = make();
      Buffer<uint16_t> result(map.box.box_bytes() / 2, "result");
      const Report report = fa::simt::run({}, [&] {
        launch(load_one_box, 1, kThreads, kSmem, map, c.x, c.y, c.z, c.w, result.data());
      });
      CHECK(texts(report) == "");
      CHECK(report.counters.tma_instructions == 1);
      CHECK(report.counters.tma_bytes == map.box.box_bytes());
      const int* const box = map.box.box;
      const int last[] = {c.x, c.y, c.z, c.w, 0};
      int index[5] = {};
      for (uint32_t dense = 0; dense < map.box.box_bytes() / 2; ++dense) {
        int rest = static_cast<int>(dense), at[5] = {};
        for (int i = 0; i < rank; ++i) {
          index[i] = rest % box[i];
          rest /= box[i];
          at[i] = last[i] + index[i];
        }
        const uint32_t place = fa::swizzled(c.swizzle, dense * 2) / 2;  // the tile starts at 1024
        CHECK(result[place] == element(at));
      }
    }
  }
}

struct Maps {
  Buffer<uint16_t> matrix{64 * 16, "matrix"}, other{64 * 16, "other"};
  TensorMap map, store;
  Maps()
      : map(make_tensor_map(matrix.data(), {64, 16}, {128}, {64, 8}, Swizzle::bytes_128)),
        store(make_tensor_map(other.data(), {64, 16}, {128}, {64, 8}, Swizzle::none)) {
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint16_t>(i);
  }
};

constexpr uint32_t kBox = 1024;
uint32_t tile(int i) { return dynamic_smem() + static_cast<uint32_t>(i) * kBox; }
uint32_t barrier(int i) { return dynamic_smem() + 3072 + static_cast<uint32_t>(i) * 8; }

using Kernel = void (*)(TensorMap map, TensorMap store, float* out, bool broken);

Report run_kernel(Kernel kernel, const Config& config, bool broken) {
  Maps maps;
  Buffer<float> out(kThreads, "out");
  return fa::simt::run(config, [&] {
    launch(kernel, 1, kThreads, kSmem, maps.map, maps.store, out.data(), broken);
  });
}
std::string twins(Kernel kernel, const std::string& expected) {
  return check_twins(
      [=](const Config& config, bool broken) { return run_kernel(kernel, config, broken); },
      expected);
}

void init(int i, int arrivals) {
  if (thread_index() == 0) {
    mbarrier_init(barrier(i), arrivals);
    fence_mbarrier_init();
  }
}
float read_tile(int i) {
  return load_shared<float>(tile(i) + 4u * static_cast<uint32_t>(thread_index()));
}
void fill(int i, TensorMap map, uint32_t bytes = kBox) {
  mbarrier_arrive_expect_tx(barrier(i), bytes);
  tma_load_2d(tile(i), map, 0, 0, barrier(i));
}
void wait_and_read(float* out) {
  mbarrier_wait(barrier(0), 0);
  store_global(out + thread_index(), read_tile(0));
}
void write_tile() {
  for (int i = 0; i < 4; ++i)
    store_shared<float>(tile(0) + 4u * static_cast<uint32_t>(thread_index() + i * kThreads), 1.0f);
}
// Waits until the copy engine has read the tile.
void store_tile(TensorMap store) {
  tma_store_2d(store, 0, 0, tile(0));
  tma_store_commit();
  tma_store_wait_read<0>();
}

void reads_before_wait(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  block_sync();
  if (thread_index() == 0) fill(0, map);
  if (!broken) mbarrier_wait(barrier(0), 0);
  store_global(out + thread_index(), read_tile(0));
}

// The issuing thread has waited. The others neither wait nor synchronize with it.
void waits_for_itself(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  block_sync();
  if (thread_index() == 0) {
    fill(0, map);
    mbarrier_wait(barrier(0), 0);
  }
  if (!broken) block_sync();
  store_global(out + thread_index(), read_tile(0));
}

// A ring of one tile. Consumers must arrive when they have read it.
void overwrites_a_tile_in_use(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  init(1, 32);
  block_sync();
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    if (thread_index() == 0) {
      if (!broken) mbarrier_wait(barrier(1), i ^ 1);
      fill(0, map);
    } else if (thread_index() >= 32) {
      mbarrier_wait(barrier(0), i);
      sum += read_tile(0);
      mbarrier_arrive(barrier(1));
    }
  }
  store_global(out + thread_index(), sum);
}

// All threads read a tile, and then the next tile is copied to the same place.
void overwrites_what_others_read(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  init(1, 1);
  block_sync();
  if (thread_index() == 0) fill(0, map);
  mbarrier_wait(barrier(0), 0);
  const float sum = read_tile(0);
  if (!broken) block_sync();
  if (thread_index() == 0) {
    mbarrier_arrive_expect_tx(barrier(1), kBox);
    tma_load_2d(tile(0), map, 0, 8, barrier(1));
  }
  mbarrier_wait(barrier(1), 0);
  store_global(out + thread_index(), sum + read_tile(0));
}

void two_copies_to_one_place(TensorMap map, TensorMap, float*, bool broken) {
  init(0, 1);
  if (thread_index() != 0) return;
  mbarrier_arrive_expect_tx(barrier(0), 2 * kBox);
  tma_load_2d(tile(0), map, 0, 0, barrier(0));
  tma_load_2d(tile(broken ? 0 : 1), map, 0, 8, barrier(0));
  mbarrier_wait(barrier(0), 0);
}

TEST_CASE("a tile that is read too early, or overwritten too early") {
  const std::string text = twins(reads_before_wait, "read_before_wait");
  CHECK(text.find("while the tma_load of thread 0") != std::string::npos);
  twins(waits_for_itself, "read_before_wait");
  twins(overwrites_what_others_read, "overwrite_while_read");
  twins(two_copies_to_one_place, "write_write");
  // In a ring, the producer's mbarrier also runs ahead, or two copies overlap.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Config config{.schedule_seed = seed};
    CHECK(texts(run_kernel(overwrites_a_tile_in_use, config, false)) == "");
    CHECK(kinds(run_kernel(overwrites_a_tile_in_use, config, true)) != "");
  }
}

TEST_CASE("a tile holds NaN until a thread waits, then the bytes, as late as possible") {
  Maps maps;
  Buffer<float> out(2, "out");
  Config config{.hazards = false};
  fa::simt::run(config, [&] {
    launch(
        +[](TensorMap map, float* result) {
          init(0, 1);
          if (thread_index() != 0) return;
          store_shared<float>(tile(0) + 4, 1.0f);
          fill(0, map);
          store_global(result, load_shared<float>(tile(0) + 4));
          mbarrier_wait(barrier(0), 0);
          store_global(result + 1, load_shared<float>(tile(0) + 4));
        },
        1, 32, kSmem, maps.map, out.data());
  });
  CHECK(!(out[0] == out[0]));
  CHECK(std::bit_cast<uint32_t>(out[1]) == 0x0003'0002);
}

template <uint32_t WRONG>
void expects(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  block_sync();
  if (thread_index() == 0) fill(0, map, broken ? WRONG : kBox);
  wait_and_read(out);
}

TEST_CASE("expected bytes that do not fit") {
  std::string text = twins(expects<kBox / 2>, "transaction_mismatch");
  CHECK(text.find("phase 0 (parity 0) has 512 bytes more than it expects") != std::string::npos);
  text = twins(expects<2 * kBox>, "transaction_mismatch");
  CHECK(text.find("phase 0 (parity 0) is missing 1024 bytes") != std::string::npos);
}

void no_init_fence(TensorMap map, TensorMap, float*, bool broken) {
  if (thread_index() == 0) {
    mbarrier_init(barrier(0), 1);
    if (!broken) fence_mbarrier_init();
  }
  block_sync();
  if (thread_index() == 32) fill(0, map);
  mbarrier_wait(barrier(0), 0);
}

// Ordinary stores, then a tensor store. Each writer executes a fence, then all synchronize.
void stores_its_tile(TensorMap, TensorMap store, float*, bool broken) {
  write_tile();
  if (!broken || thread_index() == 0) fence_proxy_async();
  block_sync();
  if (thread_index() == 0) store_tile(store);
}

// A fence must come after the store that it covers.
void fences_too_early(TensorMap, TensorMap store, float*, bool broken) {
  if (broken) fence_proxy_async();
  write_tile();
  if (!broken) fence_proxy_async();
  block_sync();
  if (thread_index() == 0) store_tile(store);
}

// One warp stores. After the barrier, a fence by the lane that issues is enough. A fence by another
// lane is not, although it comes before the copy, because a shuffle waits for the other lanes but
// orders no memory accesses.
void fences_behind_the_barrier(TensorMap, TensorMap store, float*, bool broken) {
  const int lane = thread_index() - 32;
  for (int i = 0; lane >= 0 && i < 8; ++i) {
    store_shared<float>(tile(0) + 4u * static_cast<uint32_t>(lane + i * 32), 1.0f);
  }
  block_sync();
  if (lane == (broken ? 30 : 31)) fence_proxy_async();
  shfl_xor(0.0f, 1);
  if (lane == 31) store_tile(store);
}

// Bytes that a tensor copy loaded need no fence, and neither do ordinary reads of them.
void brought_and_stored(TensorMap map, TensorMap store, float* out, bool broken) {
  init(0, 1);
  block_sync();
  if (thread_index() == 0) fill(0, map);
  wait_and_read(out);
  if (broken && thread_index() == 3) store_shared<float>(tile(0) + 12, 0.0f);
  block_sync();
  if (thread_index() == 0) store_tile(store);
}

// Ordinary stores, then a tensor copy that overwrites them.
void copies_over_stores(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  store_shared<float>(tile(0) + 4u * static_cast<uint32_t>(thread_index()), 1.0f);
  if (!broken) fence_proxy_async();
  block_sync();
  if (thread_index() == 0) fill(0, map);
  wait_and_read(out);
}

// A cp.async uses the threads' proxy, so its fence must come after its wait.
void fences_before_its_copy(TensorMap, TensorMap store, float* out, bool broken) {
  cp_async_16(tile(0) + 16u * static_cast<uint32_t>(thread_index()), out, 0);
  cp_async_commit();
  if (broken) fence_proxy_async();
  cp_async_wait<0>();
  if (!broken) fence_proxy_async();
  block_sync();
  if (thread_index() == 0) store_tile(store);
}

// The fence of a third thread is, or is not, on the path from the threads that store to the thread
// that issues.
void fences_on_the_way(TensorMap, TensorMap store, float*, bool broken) {
  write_tile();
  if (thread_index() == 33 && broken) fence_proxy_async();
  block_sync();
  if (thread_index() == 33 && !broken) fence_proxy_async();
  block_sync();
  if (thread_index() == 0) store_tile(store);
}

// Ordinary stores to global memory, then a tensor copy of the same bytes.
float* memory_of(const TensorMap& map) {
  return static_cast<float*>(const_cast<void*>(map.box.data));
}

void loads_what_was_stored(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  store_global(memory_of(map) + thread_index(), 2.0f);
  if (!broken) fence_proxy_async_global();
  block_sync();
  if (thread_index() == 0) fill(0, map);
  wait_and_read(out);
}

// The issuing thread may execute the fence after the barrier. A fence for shared memory does not
// cover global memory.
void fences_global_as_issuer(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  store_global(memory_of(map) + thread_index(), 2.0f);
  block_sync();
  if (thread_index() == 0) {
    broken ? fence_proxy_async() : fence_proxy_async_global();
    fill(0, map);
  }
  wait_and_read(out);
}

void stores_over_stores(TensorMap map, TensorMap store, float*, bool broken) {
  init(0, 1);
  store_global(memory_of(store) + thread_index(), 2.0f);
  if (!broken) fence_proxy_async_global();
  block_sync();
  if (thread_index() == 0) fill(0, map);
  mbarrier_wait(barrier(0), 0);
  if (thread_index() != 0) return;
  tma_store_2d(store, 0, 0, tile(0));
  tma_store_commit();
  tma_store_wait<0>();
}

TEST_CASE("missing_proxy_fence, global memory") {
  const std::string text = twins(loads_what_was_stored, "missing_proxy_fence");
  CHECK(text.find("no fence_proxy_async_global is between the two") != std::string::npos);
  twins(fences_global_as_issuer, "missing_proxy_fence");
  twins(stores_over_stores, "missing_proxy_fence");
}

TEST_CASE("missing_proxy_fence") {
  const std::string text = twins(no_init_fence, "missing_proxy_fence");
  CHECK(text.find("no fence_mbarrier_init of that thread") != std::string::npos);
  for (const Kernel kernel :
       {stores_its_tile, fences_too_early, fences_behind_the_barrier, fences_on_the_way,
        brought_and_stored, copies_over_stores, fences_before_its_copy})
    twins(kernel, "missing_proxy_fence");
}

// The source of a tensor store is overwritten before it has been read.
// The bytes that a load reads are overwritten before the wait for it.
void overwrites_what_is_loaded(TensorMap map, TensorMap, float* out, bool broken) {
  init(0, 1);
  block_sync();
  if (thread_index() == 0) fill(0, map);
  block_sync();
  if (broken && thread_index() == 33) store_global(memory_of(map) + 5, 1.0f);
  wait_and_read(out);
  if (!broken && thread_index() == 33) store_global(memory_of(map) + 5, 1.0f);
}

// Another block overwrites them after a flag, which block 0 sets before its load has completed.
void flag_before_the_load(TensorMap map, int* flag, bool broken) {
  if (block_index() == 1) {
    if (thread_index() > 0) return;
    while (load_acquire(flag) == 0) {
    }
    store_global(memory_of(map) + 5, 1.0f);
    return;
  }
  init(0, 1);
  block_sync();
  if (thread_index() == 0) {
    fill(0, map);
    if (!broken) mbarrier_wait(barrier(0), 0);
    store_release(flag, 1);
  }
  mbarrier_wait(barrier(0), 0);
}

// The bytes that a store writes are read after a wait for its reads only.
void reads_what_is_stored(TensorMap, TensorMap store, float* out, bool broken) {
  write_tile();
  fence_proxy_async();
  block_sync();
  if (thread_index() == 0) {
    tma_store_2d(store, 0, 0, tile(0));
    tma_store_commit();
    broken ? tma_store_wait_read<0>() : tma_store_wait<0>();
  }
  block_sync();
  if (thread_index() == 40)
    store_global(out, load_global(static_cast<const float*>(store.box.data)));
}

void overwrites_what_is_stored(TensorMap, TensorMap store, float*, bool broken) {
  write_tile();
  fence_proxy_async();
  block_sync();
  if (thread_index() == 0) {
    tma_store_2d(store, 0, 0, tile(0));
    tma_store_commit();
    if (!broken) tma_store_wait_read<0>();
    store_shared<float>(tile(0), 2.0f);
    tma_store_wait<0>();
  }
}

void ends_before_it_is_stored(TensorMap, TensorMap store, float*, bool broken) {
  write_tile();
  fence_proxy_async();
  block_sync();
  if (thread_index() == 0) {
    tma_store_2d(store, 0, 0, tile(0));
    tma_store_commit();
    if (!broken) tma_store_wait<0>();
  }
}

TEST_CASE("a tensor store whose source is not kept") {
  twins(overwrites_what_is_stored, "overwrite_while_read");
  twins(overwrites_what_is_loaded, "global_race");
  check_twins(
      [](const Config& config, bool broken) {
        Maps maps;
        Buffer<int> flag(1, "flag");
        return fa::simt::run(config, [&] {
          launch(flag_before_the_load, 2, kThreads, kSmem, maps.map, flag.data(), broken);
        });
      },
      "global_race");
  twins(reads_what_is_stored, "global_race");
  twins(ends_before_it_is_stored, "overwrite_while_read");
}

// Returns the bytes of the boxes outside the tensor, where each of `times` stores has 5 rows
// inside.
static int64_t outside_bytes(int times) {
  Maps maps;
  const TensorMap edge =
      make_tensor_map(maps.other.data(), {52, 13}, {128}, {64, 8}, Swizzle::bytes_128);
  const Report report = fa::simt::run({}, [&] {
    launch(
        +[](TensorMap store, int times) {
          for (int i = 0; i < times; ++i) {
            if (thread_index() == 0) {
              tma_store_2d(store, 0, 8, tile(0));
              tma_store_commit();
              tma_store_wait<0>();
            }
            block_sync();
          }
        },
        1, 32, kSmem, edge, times);
  });
  return report.counters.tma_bytes_outside;
}

TEST_CASE("bytes outside the tensor are counted anew for each copy") {
  CHECK(outside_bytes(1) > 0);
  CHECK(outside_bytes(3) == 3 * outside_bytes(1));
}

// The last 16 bytes of a row are stored whole, that is, columns 48 to 55, although the tensor ends
// at 52.
TEST_CASE("a tensor store: swizzled back, nothing outside the tensor but the rest of a chunk") {
  Maps maps;
  const TensorMap edge =
      make_tensor_map(maps.other.data(), {52, 13}, {128}, {64, 8}, Swizzle::bytes_128);
  for (uint16_t& x : maps.other) x = 0xffff;
  const Report report = fa::simt::run({}, [&] {
    launch(
        +[](TensorMap map, TensorMap store) {
          init(0, 1);
          block_sync();
          if (thread_index() != 0) return;
          fill(0, map);
          mbarrier_wait(barrier(0), 0);
          tma_store_2d(store, 0, 8, tile(0));
          tma_store_commit();
          tma_store_wait<0>();
        },
        1, 32, kSmem, maps.map, edge);
  });
  CHECK(texts(report) == "");
  CHECK(report.counters.tma_instructions == 2);
  CHECK(report.counters.tma_bytes == 2 * kBox);
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 64; ++col) {
      const bool stored = row >= 8 && row < 13 && col < 56;
      CHECK(maps.other[static_cast<size_t>(row * 64 + col)] ==
            (stored ? (row - 8) * 64 + col : 0xffff));
    }
  }
}

void misaligned_tile(TensorMap map, TensorMap, float*, bool broken) {
  init(0, 1);
  if (thread_index() != 0) return;
  if (!broken) {
    mbarrier_arrive_expect_tx(barrier(0), kBox);
    tma_load_2d(tile(0) + 128, map, 0, 0, barrier(0));
    mbarrier_wait(barrier(0), 0);
  } else {
    tma_load_2d(tile(0) + 64, map, 0, 0, barrier(0));
  }
}

// Rows of a box start at multiples of 16 bytes in the tensor's rows, which are columns 0, 8, 16, …
// of bf16.
void misaligned_column(TensorMap map, TensorMap, float*, bool broken) {
  init(0, 1);
  if (thread_index() != 0) return;
  mbarrier_arrive_expect_tx(barrier(0), kBox);
  tma_load_2d(tile(0), map, broken ? 4 : 8, 0, barrier(0));
  mbarrier_wait(barrier(0), 0);
}

void tile_behind_the_end(TensorMap map, TensorMap, float*, bool broken) {
  init(0, 1);
  if (thread_index() != 0) return;
  if (!broken) mbarrier_arrive_expect_tx(barrier(0), kBox);
  tma_load_2d(tile(broken ? 4 : 0), map, 0, 0, barrier(0));
  if (!broken) mbarrier_wait(barrier(0), 0);
}

void stores_above_the_tensor(TensorMap map, TensorMap store, float*, bool broken) {
  init(0, 1);
  if (thread_index() != 0) return;
  fill(0, map);
  mbarrier_wait(barrier(0), 0);
  tma_store_2d(store, 0, broken ? -4 : 0, tile(0));
  tma_store_commit();
  tma_store_wait<0>();
}

TEST_CASE("the event log says which mbarrier, phase and parity, and which box") {
  Maps maps;
  Config config{.events = true};
  const auto kernel = +[](TensorMap map, TensorMap store) {
    init(0, 1);
    init(1, 1);
    block_sync();
    mbarrier_wait(barrier(1), 1);  // no arrival yet, so it waits for the phase before the first
    for (int i = 0; i < 2; ++i) {
      if (thread_index() / 32 == 1 && elect_one()) {  // other lanes may run first here
        mbarrier_arrive_expect_tx(barrier(0), kBox);
        tma_load_2d(tile(i), map, 0, 8 * i, barrier(0));
      }
      mbarrier_wait(barrier(0), i);
      block_sync();
    }
    if (thread_index() == 37) tma_store_2d(store, 0, 8, tile(1));
  };
  const Report report =
      fa::simt::run(config, [&] { launch(kernel, 1, kThreads, kSmem, maps.map, maps.store); });
  std::string log;
  for (const fa::simt::Event& event : report.events) {
    if (event.warp != 1 || event.kind == fa::simt::EventKind::kBarrier) continue;
    log += event_name(event.kind);
    if (event.mbarrier >= 0)
      log += " at " + std::to_string(event.mbarrier) + " phase " + std::to_string(event.phase);
    if (event.parity >= 0) log += " parity " + std::to_string(event.parity);
    if (event.bytes > 0) log += ", " + std::to_string(event.bytes) + " bytes";
    for (const int at : event.coordinates) log += " " + std::to_string(at);
    const auto* source = reinterpret_cast<const void*>(event.source);  // NOLINT: it is only named
    if (source != nullptr) log += " of " + fa::simt::describe_address(source);
    log += "\n";
  }
  CHECK(log ==
        "mbarrier_wait at 3080 phase -1 parity 1\n"
        "vote\n"
        "mbarrier_arrive at 3072 phase 0, 1024 bytes\n"
        "tma_load at 3072 phase 0, 1024 bytes 0 0 of matrix[0]\n"
        "mbarrier_wait at 3072 phase 0 parity 0\n"
        "vote\n"
        "mbarrier_arrive at 3072 phase 1, 1024 bytes\n"
        "tma_load at 3072 phase 1, 1024 bytes 0 8 of matrix[512]\n"
        "mbarrier_wait at 3072 phase 1 parity 1\n"
        "tma_store, 1024 bytes 0 8 of other[512]\n");
  REQUIRE(!report.events.empty());
  CHECK(report.events[0].kind == fa::simt::EventKind::kMbarrier);
  CHECK(report.events[0].mbarrier == 3072);
}

TEST_CASE("the event log of a deadlock ends with what each warp waits for") {
  Config config{.events = true};
  const auto kernel = +[] {
    init(0, 1);
    block_sync();
    mbarrier_wait(barrier(0), 0);
  };
  const Report report = fa::simt::run(config, [&] { launch(kernel, 1, kThreads, kSmem); });
  CHECK(kinds(report) == "deadlock");
  for (int warp = 0; warp < 2; ++warp) {
    const fa::simt::Event* last = nullptr;
    for (const fa::simt::Event& event : report.events)
      if (event.warp == warp) last = &event;
    REQUIRE(last != nullptr);
    CHECK(last->kind == fa::simt::EventKind::kAwaiting);
    CHECK(last->mbarrier == 3072);
  }
}

TEST_CASE("tiles that cannot be") {
  twins(stores_above_the_tensor, "out_of_bounds");
  twins(misaligned_tile, "misaligned");
  twins(misaligned_column, "misaligned");
  twins(tile_behind_the_end, "out_of_bounds");
  Maps maps;
  const TensorMap beyond =  // more rows than the buffer has
      make_tensor_map(maps.matrix.data(), {64, 32}, {128}, {64, 8}, Swizzle::none);
  const auto load = +[](TensorMap map, int row) {
    init(0, 1);
    if (thread_index() != 0) return;
    tma_load_2d(tile(0), map, 0, row, barrier(0));
  };
  const Report report = fa::simt::run({}, [&] { launch(load, 1, 32, kSmem, beyond, 12); });
  CHECK(kinds(report) == "out_of_bounds");
  CHECK_THROWS_WITH_AS(launch(
                           +[](TensorMap map) {
                             init(0, 1);
                             tma_load_3d(tile(0), map, 0, 0, 0, barrier(0));
                           },
                           1, 32, kSmem, maps.map),
                       doctest::Contains("tma_load_3d with a tensor map of 2 dimensions"),
                       std::runtime_error);
}

}  // namespace

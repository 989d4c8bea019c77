#include "run.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "chapter.hpp"
#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/npy.hpp"
#include "common/parse.hpp"
#include "pages.hpp"
#include "tree.hpp"

namespace fa::ch11 {
namespace {

using ::ch11::KERNEL;

std::vector<int64_t> lengths_in_use(const Problem& problem) {
  return problem.lengths.empty() ? std::vector<int64_t>(problem.shape.batch, problem.shape.kv)
                                 : problem.lengths;
}

// Copies the first keys and values of the first sequence to all sequences. With files, checks that
// they are equal.
void share_prefix(const Problem& problem, const char* option, std::vector<float>& x,
                  const Arguments& args, const Flags& flags) {
  const int64_t heads = problem.kv_heads(), row = problem.shape.kv * problem.shape.dim;
  const int64_t shared = std::min(flags.prefix, problem.shape.kv) * problem.shape.dim;
  for (int64_t n = heads; n < problem.shape.batch * heads; ++n) {
    const auto first = x.begin() + n % heads * row, own = x.begin() + n * row;
    if (args.given(option) && !std::equal(first, first + shared, own)) {
      throw InputError(std::string(option) + ": sequence " + std::to_string(n / heads) +
                       " does not begin with the --prefix of sequence 0");
    }
    std::copy_n(first, shared, own);
  }
}

// Reads a table from a file, and sets the size of the pool that it needs. Entries after a
// sequence's pages are ignored.
CacheLayout read_table(const Problem& problem, CacheLayout cache, const Flags& flags) {
  const std::string& path = flags.block_table;
  const NpyArray file = read_npy(path, {NpyType::i32});
  const int64_t batch = problem.shape.batch;
  if (file.shape.size() != 2 || file.shape[0] != batch) {
    throw InputError(path + ": expected int32 [" + std::to_string(batch) +
                     ", pages], a row for each sequence");
  }
  cache.columns = file.shape[1];
  for (const double entry : file.doubles()) cache.table.push_back(static_cast<int32_t>(entry));
  const int64_t row = problem.kv_heads() * cache.page_size * problem.shape.dim;
  const int64_t most = std::max<int64_t>(1, (int64_t{1} << 30) / row);
  std::set<int32_t> taken;
  const std::vector<int64_t> lengths = lengths_in_use(problem);
  for (int64_t n = 0; n < batch; ++n) {
    const int64_t pages = ::ch11::ceil_div(lengths[n], cache.page_size);
    if (pages > cache.columns) {
      throw InputError(path + ": sequence " + std::to_string(n) + " needs " +
                       std::to_string(pages) + " pages, its row has " +
                       std::to_string(cache.columns));
    }
    for (int64_t i = 0; i < pages; ++i) {
      const int32_t page = cache.table[n * cache.columns + i];
      const std::string which =
          path + ": page " + std::to_string(page) + " of sequence " + std::to_string(n);
      if (page < 0 || page >= most) {
        throw InputError(which + ": expected 0 to " + std::to_string(most - 1));
      }
      if (n > 0 && i < flags.prefix / cache.page_size) {
        if (page == cache.table[i]) continue;
        throw InputError(which + ": the --prefix has page " + std::to_string(cache.table[i]) +
                         " there");
      }
      if (!taken.insert(page).second) throw InputError(which + " is in the table twice");
      cache.pages = std::max<int64_t>(cache.pages, page + 1);
    }
  }
  cache.pages = std::max<int64_t>(cache.pages, 1);
  return cache;
}

// Sets which new tokens each of them sees, from the parents that --tree gives for one sequence or
// for all.
void set_tree(Problem& problem, const std::string& given) {
  const int64_t batch = problem.shape.batch, tokens = problem.shape.q;
  std::vector<int64_t> parents, sizes;
  if (given.find_first_not_of("-,0123456789") == std::string::npos) {
    for (const std::string& part : split_at_commas(given)) {
      parents.push_back(
          parse_integer(part, "--tree " + shown(given) + ": parent", -1, kMostTreeTokens));
    }
    sizes = {std::ssize(parents)};
  } else {
    const NpyArray file = read_npy(given, {NpyType::i32});
    for (const double parent : file.doubles()) parents.push_back(static_cast<int64_t>(parent));
    sizes = file.shape;
  }
  if (sizes != std::vector{tokens} && sizes != std::vector{batch, tokens}) {
    throw InputError("--tree " + shown(given) + ": is " + bracketed(sizes) + ", expected [" +
                     std::to_string(tokens) + "], a parent for each new token, or [" +
                     std::to_string(batch) + ", " + std::to_string(tokens) + "]");
  }
  for (int64_t n = 0; n < batch; ++n) {
    const auto words =
        ::ch11::tree_words(std::span(parents).subspan(sizes.size() > 1 ? n * tokens : 0, tokens));
    problem.tree.insert(problem.tree.end(), words.begin(), words.end());
  }
  problem.causal = true;
}

CacheLayout cache_layout(const Problem& problem, const Arguments& args, const Flags& flags) {
  CacheLayout cache{.appended = flags.appended, .prefix = flags.prefix};
  if (!args.given("--page-size")) return cache;
  cache.page_size = flags.page_size;
  if (args.given("--block-table")) return read_table(problem, cache, flags);
  const std::vector<int64_t> lengths = lengths_in_use(problem);
  int64_t used = 0;
  const int64_t shared = cache.prefix / cache.page_size;
  for (const int64_t length : lengths) used += ::ch11::ceil_div(length, cache.page_size) - shared;
  cache.pages = shared + used + 2;  // two pages are unused
  cache.columns = ::ch11::ceil_div(problem.shape.kv, cache.page_size);
  const std::vector<int32_t> lengths_32(lengths.begin(), lengths.end());
  cache.table = ::ch11::scattered_table(lengths_32, cache.columns, cache.page_size, cache.pages,
                                        static_cast<uint64_t>(args.seed), shared);
  return cache;
}

struct Plan {
  CacheLayout cache;
  DecodeSplits splits;
  int64_t keys = 0, pages = 0;  // in use by all sequences, a prefix counted once
  int64_t bytes = 0;            // size of their K and V
};

Plan plan_of(const Problem& problem, const Arguments& args, const Flags& flags) {
  Plan plan;
  plan.cache = cache_layout(problem, args, flags);
  const std::vector<int64_t> lengths = lengths_in_use(problem);
  for (size_t n = 0; n < lengths.size(); ++n) {
    const int64_t keys = lengths[n] - (n > 0 ? flags.prefix : 0);
    plan.keys += keys;
    if (plan.cache.page_size > 0) plan.pages += ::ch11::ceil_div(keys, plan.cache.page_size);
  }
  plan.bytes = plan.keys * problem.kv_heads() * problem.shape.dim * 2 * int64_t{sizeof(bf16)};
  const int machine = wants_gpu(KERNEL, args) ? gpu_multiprocessors() : ::ch11::kMultiprocessors;
  plan.splits = ::ch11::choose_splits(problem.shape, problem.kv_heads(),
                                      *std::max_element(lengths.begin(), lengths.end()),
                                      flags.prefix, machine);
  if (args.given("--splits")) {
    plan.splits.own = static_cast<int>(flags.splits);
    if (flags.prefix > 0) plan.splits.prefix = plan.splits.own;
  }
  return plan;
}

std::string in_words(const Plan& plan) {
  std::string text = "  cache      " + std::to_string(plan.keys) + " keys, " +
                     std::to_string(plan.bytes) + " bytes of K and V";
  if (plan.cache.page_size > 0) {
    text += ", in " + std::to_string(plan.pages) + " of " + std::to_string(plan.cache.pages) +
            " pages of " + std::to_string(plan.cache.page_size);
  }
  if (plan.cache.prefix > 0) {
    text += "; the first " + std::to_string(plan.cache.prefix) + " are shared";
  }
  return text + "\n";
}

std::string in_words(const DecodeSplits& splits) {
  std::string text = std::to_string(splits.own) + (splits.own == 1 ? " split" : " splits");
  if (splits.prefix > 0) text += " and " + std::to_string(splits.prefix) + " of the prefix";
  return text;
}

void bench(const Problem& problem, const Arguments& args, const Flags& flags) {
  if (!wants_gpu(KERNEL, args)) {
    std::cout << "  bench      the emulator's time says nothing about a GPU's; "
                 "./learn bench simt measures the emulator itself\n";
    return;
  }
  // The default shape is meant for reading counters and is too small to fill a GPU.
  Problem large = problem;
  if (problem.shape == args.program.default_shape && problem.lengths.empty()) {
    large = random_problem({16, 32, 1, 8192, 128}, problem.dtype, 0, 1, 4);
  }
  const Plan plan = plan_of(large, args, flags);
  std::vector<float> o(large.shape.q_elements());
  DecodeTensors tensors{o, {}};
  const double ms = decode_on_gpu(KERNEL, large, plan.cache, plan.splits, tensors, {}, 20);
  const double rate = static_cast<double>(plan.bytes) / ms * 1e-6, copy = gpu_copy_limit_gbs();
  char line[200];
  std::snprintf(line, sizeof line,
                "  bench      shape %s, %lld heads of K and V, %s: %.4f ms, %.0f GB/s of K "
                "and V; a copy reaches %.0f here\n",
                to_string(large.shape).c_str(), static_cast<long long>(large.kv_heads()),
                in_words(plan.splits).c_str(), ms, rate, copy);
  std::cout << line;
}

}  // namespace

void Flags::declare(Cli& cli) {
  cli.text("--cache-seqlens", lengths, "a,b,...: keys in use of each sequence [all]");
  cli.integer("--page-size", page_size, 1, ::ch11::kLargestPage,
              "keys per page of a cache with pages in random order [no pages]");
  cli.input_file("--block-table", block_table,
                 "the pages of each sequence from a .npy file, int32 [B, pages]");
  cli.integer("--splits", splits, 1, ::ch11::kMostSplits,
              "parts of a sequence's keys, and of the prefix [by the number of multiprocessors]");
  cli.integer(
      "--append", appended, 1, kMostElements,
      "number of new keys at the end of each sequence, which the call appends to the cache");
  cli.integer("--prefix", prefix, 1, kMostElements,
              "number of first keys that all sequences share, on the same pages: read once");
  cli.text("--tree", tree,
           "the parent of each new token, as -1,0,0 or a .npy file, int32 [Lq] or [B, Lq]: a token "
           "sees the cache, its ancestors and itself; -1: no parent");
}

void prepare(Problem& problem, const Arguments& args, const Flags& flags) {
  if (args.given("--cache-seqlens")) {
    problem.lengths = parse_lengths("--cache-seqlens", flags.lengths, "length", problem.shape.kv);
    check_mask(problem);
  }
  if (args.given("--tree")) set_tree(problem, flags.tree);
  if (!args.given("--prefix")) return;
  share_prefix(problem, "--k", problem.k, args, flags);
  share_prefix(problem, "--v", problem.v, args, flags);
}

void check_options(const Problem& problem, const Arguments& args, const Flags& flags) {
  ::ch11::check_shape(problem.shape);
  for (const int64_t length :
       problem.lengths.empty() ? std::vector<int64_t>{problem.shape.kv} : problem.lengths) {
    if (length >= flags.appended) continue;
    throw InputError("--append " + std::to_string(flags.appended) + ": a sequence has " +
                     std::to_string(length) + " keys, including new ones");
  }
  for (const int64_t length : lengths_in_use(problem)) {
    if (problem.tree.empty() || length >= problem.shape.q) continue;
    throw InputError("--tree: a sequence has " + std::to_string(length) + " keys, fewer than its " +
                     std::to_string(problem.shape.q) + " new tokens");
  }
  for (const char* option : {"--block-table", "--prefix"}) {
    if (args.given(option) && !args.given("--page-size")) {
      throw InputError(std::string(option) + " goes with --page-size: give both");
    }
  }
  if (!args.given("--prefix")) return;
  if (flags.prefix % flags.page_size != 0) {
    throw InputError("--prefix " + std::to_string(flags.prefix) +
                     ": expected whole pages, a multiple of " + std::to_string(flags.page_size));
  }
  const int64_t behind = std::max(problem.causal ? problem.shape.q : 0, flags.appended);
  for (const int64_t length : lengths_in_use(problem)) {
    if (length - behind >= flags.prefix) continue;
    throw InputError("--prefix " + std::to_string(flags.prefix) + ": a sequence has " +
                     std::to_string(length) + " keys" +
                     (behind > 0 ? ", including new ones, which are after it" : ""));
  }
}

Run run_decode(Tensors& tensors, const Arguments& args, const Flags& flags) {
  const Plan plan = plan_of(tensors, args, flags);
  const KernelRun run{args.break_bits, {}, args.layout == "blhd"};
  DecodeTensors outputs{tensors.o, tensors.lse};
  KernelWork work;
  work.on_gpu = [&](int runs) {
    return decode_on_gpu(KERNEL, tensors, plan.cache, plan.splits, outputs, run, runs);
  };
  work.on_emulator = [&](const simt::Config& config) {
    return decode_on_emulator(KERNEL, tensors, plan.cache, plan.splits, outputs, run, config);
  };
  work.previous_name = ::ch09::KERNEL.name;
  if (tensors.lengths.empty()) work.previous = [&] { return counted(::ch09::KERNEL, tensors); };
  Run result = run_kernels(KERNEL, args, work);
  result.title = in_words(plan.splits);
  if (!result.profile) result.profile = shared_json({});
  (*result.profile)["splits"] = plan.splits.own;
  if (flags.prefix > 0) (*result.profile)["prefix_splits"] = plan.splits.prefix;
  (*result.profile)["pages"] = plan.pages;
  result.notes = in_words(plan) + result.notes;
  if (outputs.misplaced > 0) {
    result.hazardous = true;
    result.notes += "  cache      " + std::to_string(outputs.misplaced) +
                    " numbers are not what the new keys should have left there\n";
  }
  result.bench = [&] { bench(tensors, args, flags); };
  return result;
}

}  // namespace fa::ch11

// The subcommand serve: a small serving loop. Requests arrive, chapter 09's kernel processes their
// prompts, this chapter's kernel answers them token by token, and pages of the cache are reused.
// There is no model: the q, k and v of each token are random numbers, and at the end the kernels'
// outputs are compared with float64.

#include <algorithm>
#include <cstdio>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "chapter.hpp"
#include "commands.hpp"
#include "common/check.hpp"
#include "common/error.hpp"
#include "common/gpu/runtime.hpp"
#include "common/json_report.hpp"
#include "common/kernels/device_array.hpp"
#include "common/kernels/runner.hpp"
#include "common/program.hpp"
#include "pages.hpp"

namespace fa::ch11 {
namespace {

using ::ch11::KERNEL, ::ch11::PagePool, ::ch11::PageTable, ::ch11::ceil_div;

constexpr int64_t kHeads = 8, kKvHeads = 2, kDim = 64;
constexpr const char* kRequests = "0:390+30,0:250+50,1:650+25,2:1400+10,3:360+60,5:233+20,8:520+12";

struct Request {
  int64_t number, arrival, prompt, wanted;
  Problem problem = {};       // all tokens of the request; a query sees the tokens up to its own
  std::vector<float> o = {};  // [heads, tokens, dim]
  int64_t answered = 0, slot = -1;

  int64_t tokens() const { return prompt + wanted; }
  int64_t length() const { return prompt + answered; }  // current length
  std::string name() const { return "request " + std::to_string(number); }
};

std::vector<Request> parse_requests(const std::string& text) {
  std::vector<Request> requests;
  std::string part;
  for (const char c : text + ",") {
    if (c != ',') {
      part += c;
      continue;
    }
    const size_t colon = part.find(':'), plus = part.find('+');
    const std::string what = "--requests " + shown(part);
    if (colon == std::string::npos || plus == std::string::npos || plus < colon) {
      throw InputError(what + ": expected STEP:PROMPT+NEW");
    }
    const auto number = [&](size_t from, size_t to, const char* name, int64_t least) {
      return parse_integer(part.substr(from, to - from), what + ": " + name, least, 1 << 16);
    };
    requests.push_back({.number = std::ssize(requests),
                        .arrival = number(0, colon, "step", 0),
                        .prompt = number(colon + 1, plus, "prompt", 1),
                        .wanted = number(plus + 1, part.size(), "new tokens", 1)});
    part.clear();
  }
  if (requests.size() > 1000) throw InputError("--requests: expected up to 1000");
  return requests;
}

// Appends the tokens [begin, end) of [heads, tokens, dim], in the layout of the kernels.
void append_rows(std::vector<bf16>& to, const std::vector<float>& from, int64_t heads,
                 int64_t tokens, int64_t begin, int64_t end) {
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = (h * tokens + begin) * kDim; i < (h * tokens + end) * kDim; ++i)
      to.push_back(to_bf16(from[i]));
}

TensorRef tensor(void* data, int64_t a, int64_t heads, int64_t length, int64_t dim = kDim,
                 Dtype dtype = Dtype::bf16) {
  const std::array<int64_t, 4> shape{a, heads, length, dim};
  return {data, dtype, shape, contiguous_strides(shape)};
}

class Server {
 public:
  Server(const CommandOptions& options, bool gpu, std::vector<Request> requests)
      : gpu_(gpu),
        pool_(options.pages),
        table_(pool_, options.batch, ceil_div(options.longest, options.page_size),
               options.page_size),
        k_cache_(gpu, options.pages * kKvHeads * options.page_size * kDim, "K"),
        v_cache_(gpu, options.pages * kKvHeads * options.page_size * kDim, "V"),
        longest_(options.longest),
        arriving_(requests.begin(), requests.end()) {
    for (int64_t slot = options.batch; slot-- > 0;) free_slots_.push_back(slot);
  }

  // Runs until every request that fits the pool is answered.
  void run() {
    while (!arriving_.empty() || !waiting_.empty() || !running_.empty()) {
      while (!arriving_.empty() && arriving_.front().arrival <= step_) arrive();
      while (!waiting_.empty() && admit()) {
      }
      make_room();
      if (!running_.empty()) decode();
      for (size_t i = running_.size(); i-- > 0;)
        if (running_[i].answered == running_[i].wanted) finish(i);
      ++step_;
    }
  }

  int report(const std::string& json);

 private:
  void say(const std::string& text) {
    char line[32];
    std::snprintf(line, sizeof line, "  step %3lld   ", static_cast<long long>(step_));
    std::cout << line << text << "\n";
  }
  static std::string pages(int64_t count) {
    return std::to_string(count) + (count == 1 ? " page" : " pages");
  }

  void arrive() {
    Request request = std::move(arriving_.front());
    arriving_.pop_front();
    const std::string wants = request.name() + ": " + std::to_string(request.prompt) +
                              " tokens, wants " + std::to_string(request.wanted);
    const int64_t needed = ceil_div(request.tokens(), table_.page_size());
    if (request.tokens() > longest_ || needed > pool_.size()) {
      say(wants + ": refused: over " +
          std::to_string(std::min(longest_, pool_.size() * table_.page_size())) + " tokens");
      ++refused_;
      return;
    }
    say(wants);
    request.problem = random_problem({1, kHeads, request.tokens(), request.tokens(), kDim},
                                     Dtype::bf16, request.number, 1, kHeads / kKvHeads);
    request.problem.causal = true;
    request.o.assign(request.problem.q.size(), std::numeric_limits<float>::quiet_NaN());
    waiting_.push_back(std::move(request));
  }

  // Admits the first request of the queue if there is a slot and enough pages for its tokens.
  bool admit() {
    Request& request = waiting_.front();
    if (free_slots_.empty()) return false;
    const int64_t slot = free_slots_.back();
    if (!table_.append(slot, request.length())) return false;
    free_slots_.pop_back();
    request.slot = slot;
    prefill(request);
    say(request.name() + ": prefill of " + std::to_string(request.length()) + " tokens, " +
        pages(table_.pages(slot)) + "; " + std::to_string(pool_.free()) + " of " +
        std::to_string(pool_.size()) + " left");
    running_.push_back(std::move(request));
    waiting_.pop_front();
    return true;
  }

  // Reserves a place for one more token per request. If there are too few pages, the last request
  // that arrived returns to the queue and is processed again later.
  void make_room() {
    for (size_t i = 0; i < running_.size(); ++i) {
      while (i < running_.size() && !table_.append(running_[i].slot, 1)) {
        Request& last = running_.back();
        say(last.name() + ": gives " + pages(table_.pages(last.slot)) +
            " back and waits, as none is left");
        ++preempted_;
        release(last);
        waiting_.push_front(std::move(last));
        running_.pop_back();
      }
    }
  }

  void release(Request& request) {
    table_.release(request.slot);
    free_slots_.push_back(request.slot);
    request.slot = -1;
  }

  void finish(size_t i) {
    say(running_[i].name() + ": done, " + pages(table_.pages(running_[i].slot)) + " back");
    release(running_[i]);
    finished_.push_back(std::move(running_[i]));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  // Computes O of the request's tokens with chapter 09's kernel and puts all its keys into the
  // cache.
  void prefill(Request& request) {
    const int64_t length = request.length(), tokens = request.tokens();
    Problem prompt;
    prompt.shape = {1, kHeads, length, length, kDim};
    prompt.dtype = Dtype::bf16;
    prompt.scale = request.problem.scale;
    prompt.causal = true;
    prompt.group = kHeads / kKvHeads;
    const auto cut = [&](const std::vector<float>& from, std::vector<float>& to) {
      for (size_t i = 0; i < from.size(); ++i)
        if (static_cast<int64_t>(i) / kDim % tokens < length) to.push_back(from[i]);
    };
    cut(request.problem.q, prompt.q);
    cut(request.problem.k, prompt.k);
    cut(request.problem.v, prompt.v);
    std::vector<float> o(prompt.q.size());
    if (gpu_) {
      forward_on_gpu(::ch09::KERNEL, prompt, o);
    } else {
      hazards_ += forward_on_emulator(::ch09::KERNEL, prompt, o).report.hazards.size();
    }
    for (int64_t h = 0; h < kHeads; ++h)
      std::copy_n(o.begin() + h * length * kDim, length * kDim,
                  request.o.begin() + h * tokens * kDim);
    call({&request, 1}, length);
  }

  void decode() {
    for (Request& request : running_) {
      ++request.answered;
      ++answered_;
      read_ideal_ += request.length() * kKvHeads * kDim * 2 * int64_t{sizeof(bf16)};
    }
    const Sums before = sums_;
    call(running_, 1);
    decoding_.sectors += sums_.sectors - before.sectors;
    decoding_.ms += sums_.ms - before.ms;
    ++decode_steps_;
    nlohmann::json holders = nlohmann::json::array();
    for (int64_t page = 0; page < pool_.size(); ++page) holders.push_back(nullptr);
    for (const Request& request : running_) {
      const std::span<const int32_t> row = table_.row(request.slot);
      for (int64_t i = 0; i < table_.pages(request.slot); ++i) holders[row[i]] = request.number;
      tokens_held_ += request.length();
    }
    places_held_ += pool_.used() * table_.page_size();
    most_used_ = std::max(most_used_, pool_.used());
    most_running_ = std::max<int64_t>(most_running_, std::ssize(running_));
    steps_.push_back({{"step", step_}, {"holders", holders}});
  }

  // Calls this chapter's kernels once. The last `fresh` tokens of each request go into the cache,
  // and O of its last token into the request.
  void call(std::span<Request> requests, int64_t fresh) {
    const int64_t batch = std::ssize(requests);
    std::vector<bf16> q, k, v;
    std::vector<int> lengths, rows;
    int64_t longest = 0;
    for (const Request& request : requests) {
      const int64_t tokens = request.tokens(), end = request.length();
      append_rows(q, request.problem.q, kHeads, tokens, end - 1, end);
      append_rows(k, request.problem.k, kKvHeads, tokens, end - fresh, end);
      append_rows(v, request.problem.v, kKvHeads, tokens, end - fresh, end);
      lengths.push_back(static_cast<int>(end - fresh));
      longest = std::max(longest, end);
      const std::span<const int32_t> row = table_.row(request.slot);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const Shape shape{batch, kHeads, 1, longest, kDim};
    const DecodeSplits splits = ::ch11::choose_splits(
        shape, kKvHeads, longest, 0, gpu_ ? gpu_multiprocessors() : ::ch11::kMultiprocessors);
    DeviceArray<bf16> Q(gpu_, q, "Q"), K(gpu_, k, "new K"), V(gpu_, v, "new V");
    DeviceArray<bf16> O(gpu_, std::ssize(q), "O");
    DeviceArray<int> device_lengths(gpu_, lengths, "lengths"), table(gpu_, rows, "table");
    DeviceArray<float> workspace(gpu_, decode_workspace(shape.rows(), kDim, splits) + 1,
                                 "workspace");
    const int64_t pages = pool_.size(), page_size = table_.page_size();
    DecodeArgs args{.q = tensor(Q.data(), batch, kHeads, 1),
                    .o = tensor(O.data(), batch, kHeads, 1),
                    .k = tensor(k_cache_.data(), pages, kKvHeads, page_size),
                    .v = tensor(v_cache_.data(), pages, kKvHeads, page_size),
                    .k_new = tensor(K.data(), batch, kKvHeads, fresh),
                    .v_new = tensor(V.data(), batch, kKvHeads, fresh),
                    .lengths = device_lengths.data(),
                    .table = table.data(),
                    .table_columns = table_.columns(),
                    .longest = longest - fresh,
                    .workspace = workspace.data(),
                    .scale = static_cast<float>(requests[0].problem.scale),
                    .splits = splits};
    check_arguments(KERNEL, args);
    if (gpu_) {
      sums_.ms += gpu_time_ms(1, [&] { KERNEL.gpu->decode(args); });
    } else {
      const simt::Report report = simt::run({}, [&] { KERNEL.emulator->decode(args); });
      sums_.sectors += report.counters.global_load_sectors;
      hazards_ += report.hazards.size();
      if (!report.hazards.empty()) std::cout << "  hazard     " << report.hazards[0].text << "\n";
    }
    const std::vector<bf16> o = O.values();
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t d = 0; d < kDim; ++d) {
          Request& request = requests[n];
          request.o[(h * request.tokens() + request.length() - 1) * kDim + d] =
              to_float(o[(n * kHeads + h) * kDim + d]);
        }
  }

  bool gpu_;
  PagePool pool_;
  PageTable table_;
  DeviceArray<bf16> k_cache_, v_cache_;  // [pages, kv_heads, page_size, dim]
  int64_t longest_, step_ = 0;
  std::deque<Request> arriving_, waiting_;
  std::vector<Request> running_, finished_;
  std::vector<int64_t> free_slots_;

  struct Sums {
    int64_t sectors = 0;
    double ms = 0;
  };
  Sums sums_, decoding_;
  int64_t answered_ = 0, decode_steps_ = 0, refused_ = 0, preempted_ = 0, read_ideal_ = 0;
  int64_t tokens_held_ = 0, places_held_ = 0, most_used_ = 0, most_running_ = 0;
  size_t hazards_ = 0;
  nlohmann::json steps_ = nlohmann::json::array();
};

int Server::report(const std::string& json) {
  int64_t wrong = 0, tokens = 0;
  for (const Request& request : finished_) {
    wrong += !check_output(request.problem, request.o, {}).passed();
    tokens += request.tokens();
  }
  const int64_t still_used = pool_.used();
  const auto ratio = [](int64_t a, int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  char text[1024];
  std::snprintf(text, sizeof text,
                "\n  answered   %lld tokens of %zu requests in %lld steps, %.1f a step\n"
                "             %lld refused, %lld put back\n",
                static_cast<long long>(answered_), finished_.size(),
                static_cast<long long>(decode_steps_), ratio(answered_, decode_steps_),
                static_cast<long long>(refused_), static_cast<long long>(preempted_));
  std::cout << text;
  if (!gpu_) {
    const int64_t read = decoding_.sectors * 32;
    std::snprintf(text, sizeof text,
                  "  read       %.0f bytes a token, %.2f times the K and V that it sees\n",
                  ratio(read, answered_), ratio(read, read_ideal_));
    std::cout << text;
  } else if (!times_hidden()) {
    std::snprintf(text, sizeof text, "  time       %.3f ms in decoding, %.0f tokens a second\n",
                  decoding_.ms, static_cast<double>(answered_) / decoding_.ms * 1e3);
    std::cout << text;
  }
  std::snprintf(text, sizeof text,
                "  cache      at most %lld of %lld pages in use, by %lld requests\n"
                "             %.0f %% of their rows held a token\n",
                static_cast<long long>(most_used_), static_cast<long long>(pool_.size()),
                static_cast<long long>(most_running_), 100 * ratio(tokens_held_, places_held_));
  std::cout << text << "  pages      "
            << (still_used == 0 ? "all back"
                                : std::to_string(still_used) + " are lost: they were not returned")
            << "\n  check      "
            << (wrong == 0 && hazards_ == 0
                    ? "passed: " + std::to_string(tokens) + " tokens, every one against float64"
                    : "FAILED: " + std::to_string(wrong) + " requests wrong, " +
                          std::to_string(hazards_) + " hazards")
            << "\n";
  const bool passed = wrong == 0 && hazards_ == 0 && still_used == 0;
  if (!json.empty()) {
    write_json(json, {{"pages", pool_.size()},
                      {"page_size", table_.page_size()},
                      {"answered", answered_},
                      {"refused", refused_},
                      {"preempted", preempted_},
                      {"steps", steps_},
                      {"bytes_read", decoding_.sectors * 32},
                      {"bytes_ideal", read_ideal_},
                      {"pages_lost", still_used},
                      {"passed", passed}});
  }
  return passed ? kAgreed : kDisagreed;
}

}  // namespace

int serve_command(const CommandOptions& options) {
  std::vector<Request> requests =
      parse_requests(options.requests.empty() ? kRequests : options.requests);
  std::stable_sort(requests.begin(), requests.end(),
                   [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
  const std::string problem = gpu_problem(*KERNEL.gpu);
  if (options.device == "gpu" && !problem.empty()) {
    throw InputError("--device gpu: " + problem + "; --device emulator runs here");
  }
  const bool gpu = options.device == "gpu" || (options.device == "auto" && problem.empty());
  std::cout << "ch11_decoding serve: " << options.pages << " pages of " << options.page_size
            << " tokens,\n  " << kHeads << " heads of Q on " << kKvHeads
            << " of K and V, head size " << kDim << ", on " << (gpu ? gpu_name() : "emulator")
            << "\n\n";
  Server server(options, gpu, std::move(requests));
  server.run();
  return server.report(options.json);
}

}  // namespace fa::ch11

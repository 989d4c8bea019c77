#pragma once
// In a server, requests arrive and leave at any step, share the pages of common prefixes, wait
// while the cache is full, and are answered greedily, with or without drafts.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "drafts.hpp"
#include "transformer.hpp"

namespace fa::ch24 {

struct Request {
  int64_t number, arrival;  // arrival is a step
  Tokens tokens;            // the prompt, then the answer
  int64_t prompt_length, wanted;
  Sequence sequence = {};
  std::vector<float> logits = {};  // [answered, vocabulary]: a row per token of the answer

  int64_t answered() const { return std::ssize(tokens) - prompt_length; }
  bool done() const { return answered() == wanted; }
};

struct ServerOptions {
  int64_t pages = 24, page_size = 8, batch = 4, draft = 0;
  bool sharing = true;
  Breaks breaks = {};
};

CacheShape cache_shape(const ServerOptions& options, const ch20::Config& model);

// The work of one step, for the table and for the figure.
struct Step {
  int64_t number = 0, running = 0, waiting = 0, new_tokens = 0, pages_used = 0, pages_shared = 0;
  double ms = 0;
  std::vector<std::vector<int64_t>> holders = {};  // [pages]: the requests that hold each
  std::vector<std::string> events = {};            // "3 starts"
};

struct Totals {
  int64_t steps = 0, tokens = 0, computed = 0, found = 0;  // prompt tokens computed, and found
  int64_t drafted = 0, accepted = 0, put_back = 0, refused = 0, most_pages = 0;
  double ms = 0;
};

class Server {
 public:
  // `requests` in the order of their arrival. `trained` must outlive the server.
  Server(const ServerOptions& options, const ch20::TrainingState& trained,
         std::unique_ptr<CacheAttention> attention, std::vector<Request> requests);

  // Takes steps until every request is answered or refused. `after` is called after each step.
  void run(const std::function<void(const Step&)>& after = [](const Step&) {});

  const std::vector<Request>& finished() const { return finished_; }
  const Totals& totals() const { return totals_; }
  const SharedPages& pages() const { return pages_; }
  const CacheAttention& attention() const { return transformer_.attention(); }
  // The first invariant of the pages that did not hold after a step, empty if all always did.
  const std::string& broken_invariant() const { return broken_invariant_; }

 private:
  void take_step();
  void arrive();
  void admit();
  bool start(Request& request);
  void put_back_last();
  void decode();
  void leave();
  void advance(Request& request, std::span<const int32_t> tokens, ch20::Matrix<float> logits);
  void note_contents(const Request& request, std::span<const int32_t> draft);
  void check_pages();
  void happened(const Request& request, const std::string& what);

  const ServerOptions options_;
  const Breaks breaks_;
  const int64_t context_;
  SharedPages pages_;
  Transformer transformer_;
  std::vector<Tokens> contents_;  // [pages]: a sequence up to the last token in the page
  std::deque<Request> arriving_, waiting_;
  std::vector<Request> running_, finished_;  // running, in the order in which they arrived
  Step step_;
  Totals totals_;
  std::string broken_invariant_;
};

}  // namespace fa::ch24

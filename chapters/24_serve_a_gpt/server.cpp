#include "server.hpp"

#include <algorithm>

#include "common/timer.hpp"

namespace fa::ch24 {
namespace {

using ::ch11::ceil_div;
using ch20::Matrix;

std::string counted(int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

int32_t most_likely(const float* logits, int64_t vocabulary) {
  return static_cast<int32_t>(std::max_element(logits, logits + vocabulary) - logits);
}

}  // namespace

CacheShape cache_shape(const ServerOptions& options, const ch20::Config& model) {
  return {model.layers,  model.heads,       model.channels / model.heads,
          options.pages, options.page_size, model.context};
}

Server::Server(const ServerOptions& options, const ch20::TrainingState& trained,
               std::unique_ptr<CacheAttention> attention, std::vector<Request> requests)
    : options_(options),
      breaks_(options.breaks),
      context_(trained.recipe.model.context),
      pages_(options.pages, options.page_size, options.breaks),
      transformer_(trained, std::move(attention)),
      contents_(options.pages),
      arriving_(std::make_move_iterator(requests.begin()),
                std::make_move_iterator(requests.end())) {}

// [anchor: step]
void Server::take_step() {
  arrive();  // requests of this step join the queue
  admit();   // takes requests while there are pages, and computes their first tokens
  decode();  // one pass for all running requests, one or several tokens each
  leave();   // answered requests release their pages
}
// [/anchor: step]

void Server::run(const std::function<void(const Step&)>& after) {
  while (!arriving_.empty() || !waiting_.empty() || !running_.empty()) {
    step_ = {.number = totals_.steps++};
    const int64_t before = totals_.tokens;
    step_.ms = time_ms([&] { take_step(); });
    totals_.ms += step_.ms;
    step_.new_tokens = totals_.tokens - before;
    step_.running = std::ssize(running_);
    step_.waiting = std::ssize(waiting_);
    step_.pages_used = pages_.used();
    step_.pages_shared = pages_.shared();
    step_.holders.resize(pages_.size());
    for (const Request& request : running_)
      for (const int32_t page : request.sequence.pages)
        step_.holders[page].push_back(request.number);
    check_pages();
    after(step_);
  }
}

void Server::happened(const Request& request, const std::string& what) {
  step_.events.push_back("request " + std::to_string(request.number) + " " + what);
}

void Server::arrive() {
  while (!arriving_.empty() && arriving_.front().arrival <= step_.number) {
    Request request = std::move(arriving_.front());
    arriving_.pop_front();
    const int64_t longest = request.prompt_length + request.wanted;
    const int64_t needed = ceil_div(longest, pages_.page_size());
    if (longest > context_) {
      happened(request, "refused: over " + std::to_string(context_) + " tokens");
      ++totals_.refused;
    } else if (needed > pages_.size()) {
      happened(request, "refused: needs " + counted(needed, "page"));
      ++totals_.refused;
    } else {
      happened(request, "arrives");
      waiting_.push_back(std::move(request));
    }
  }
}

void Server::admit() {
  while (!waiting_.empty() && std::ssize(running_) < options_.batch && start(waiting_.front())) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// [anchor: start]
// Holds the pages that already have the beginning of the request's tokens, and computes the others.
// False if there are too few pages, because its tokens need them, and each running request needs
// one soon.
bool Server::start(Request& request) {
  const int64_t length = std::ssize(request.tokens);
  const std::vector<int32_t> found =
      options_.sharing ? pages_.find(request.tokens) : std::vector<int32_t>{};
  const int64_t needed = ceil_div(length + 1, pages_.page_size()) - std::ssize(found);
  const int64_t left = pages_.free() - pages_.free_among(found);
  if (needed + std::ssize(running_) > left) return false;

  Sequence& sequence = request.sequence;
  for (const int32_t page : found) pages_.share(page);
  sequence = {found, std::ssize(found) * pages_.page_size()};
  const int64_t computed = length - sequence.length;
  pages_.reserve(sequence, computed);
  totals_.found += sequence.length;
  totals_.computed += computed;
  happened(request,
           found.empty() ? "starts" : "starts, finds " + counted(std::ssize(found), "page"));

  const std::span<const int32_t> fresh = std::span(request.tokens).last(computed);
  const Piece piece{&sequence, 0, computed};
  note_contents(request, {});
  const Matrix<float> logits = transformer_.forward({&piece, 1}, fresh);
  sequence.length = length;
  const int32_t next = most_likely(logits.row(computed - 1), logits.cols);
  advance(request, {&next, 1}, logits.row_block(computed - 1, 1));
  return true;
}
// [/anchor: start]

// The last request that arrived releases its pages and returns to the front of the queue.
void Server::put_back_last() {
  Request& last = running_.back();
  happened(last, "gives " + counted(std::ssize(last.sequence.pages), "page") + " back");
  ++totals_.put_back;
  pages_.release(last.sequence);
  waiting_.push_front(std::move(last));
  running_.pop_back();
}

void Server::decode() {
  // [anchor: room]
  // Each request needs room for its last token. Drafts get only pages that are left.
  for (size_t i = 0; i < running_.size(); ++i) {
    while (i < running_.size() && !running_[i].done() && !pages_.reserve(running_[i].sequence, 1)) {
      put_back_last();
    }
  }
  // [/anchor: room]
  // [anchor: verify]
  std::vector<Piece> pieces;
  std::vector<Tokens> drafts;
  Tokens fresh;  // per request, its last token and its draft
  for (Request& request : running_) {
    Sequence& sequence = request.sequence;
    if (request.done()) continue;
    const int64_t most = std::min(
        {options_.draft, request.wanted - request.answered() - 1, context_ - sequence.length - 1});
    Tokens draft = lookup_draft(request.tokens, most);
    if (!pages_.reserve(sequence, 1 + std::ssize(draft))) draft.clear();
    note_contents(request, draft);
    pieces.push_back({&sequence, std::ssize(fresh), 1 + std::ssize(draft)});
    fresh.push_back(request.tokens.back());
    fresh.insert(fresh.end(), draft.begin(), draft.end());
    drafts.push_back(std::move(draft));
  }
  if (pieces.empty()) return;
  const Matrix<float> logits = transformer_.forward(pieces, fresh);
  size_t next = 0;
  for (Request& request : running_) {
    if (request.done()) continue;
    const Tokens& draft = drafts[next];
    const Piece& piece = pieces[next++];
    Tokens choices;
    for (int64_t row = piece.first_row; row < piece.first_row + piece.count; ++row)
      choices.push_back(most_likely(logits.row(row), logits.cols));
    const Tokens accepted = accept(draft, choices);
    // K and V of rejected tokens stay in their rows. The next tokens will overwrite them.
    request.sequence.length += std::ssize(accepted);
    if (breaks_.has(LENGTHS_OFF_BY_ONE))
      request.sequence.length += accepted.size() < choices.size();
    totals_.drafted += std::ssize(draft);
    totals_.accepted += std::ssize(accepted) - 1;
    advance(request, accepted, logits.row_block(piece.first_row, std::ssize(accepted)));
  }
  // [/anchor: verify]
}

// Appends tokens to the answer, and tells the index which pages are full.
void Server::advance(Request& request, std::span<const int32_t> tokens, Matrix<float> logits) {
  request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
  request.logits.insert(request.logits.end(), logits.row(0), logits.row(logits.rows));
  totals_.tokens += std::ssize(tokens);
  pages_.trim(request.sequence);
  if (!options_.sharing) return;
  const int64_t full =
      std::min(request.sequence.length, std::ssize(request.tokens) - 1) / pages_.page_size();
  for (int64_t i = 0; i < full; ++i)
    pages_.publish(request.sequence.pages[i],
                   std::span(request.tokens).first((i + 1) * pages_.page_size()));
}

void Server::leave() {
  totals_.most_pages = std::max(totals_.most_pages, pages_.used());
  for (size_t i = 0; i < running_.size();) {
    Request& request = running_[i];
    const bool full = request.sequence.length >= context_;  // only if it counts too many tokens
    if (!request.done() && !full) {
      ++i;
      continue;
    }
    happened(request, "done");
    pages_.release(request.sequence);
    finished_.push_back(std::move(request));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Keeps, for check_pages, the tokens whose K and V the next pass stores in the request's pages, up
// to the end of its draft.
void Server::note_contents(const Request& request, std::span<const int32_t> draft) {
  const Sequence& sequence = request.sequence;
  Tokens tokens = request.tokens;
  tokens.insert(tokens.end(), draft.begin(), draft.end());
  const int64_t size = pages_.page_size();
  for (int64_t i = sequence.length / size; i < std::ssize(sequence.pages); ++i) {
    const int64_t end = std::min((i + 1) * size, std::ssize(tokens));
    contents_[sequence.pages[i]].assign(tokens.begin(), tokens.begin() + end);
  }
}

// Each page is held by as many sequences as it counts, and holds K and V of the tokens that they
// have there. Each sequence has pages for its tokens and no others.
void Server::check_pages() {
  const auto broken = [&](const std::string& what) {
    if (broken_invariant_.empty())
      broken_invariant_ = "step " + std::to_string(step_.number) + ": " + what;
  };
  std::vector<int64_t> holders(pages_.size());
  for (const Request& request : running_) {
    const std::string name = "request " + std::to_string(request.number);
    const Sequence& sequence = request.sequence;
    if (sequence.length != std::ssize(request.tokens) - 1)
      broken(name + " has " + std::to_string(request.tokens.size()) + " tokens, of which " +
             std::to_string(sequence.length) + " are in the cache");
    if (std::ssize(sequence.pages) != ceil_div(sequence.length, pages_.page_size()))
      broken(name + " has " + counted(std::ssize(sequence.pages), "page") + " for " +
             std::to_string(sequence.length) + " tokens");
    for (size_t i = 0; i < sequence.pages.size(); ++i) {
      const int32_t page = sequence.pages[i];
      const int64_t end = std::min({(static_cast<int64_t>(i) + 1) * pages_.page_size(),
                                    sequence.length, std::ssize(request.tokens)});
      const Tokens& there = contents_[page];
      ++holders[page];
      if (std::ssize(there) < end ||
          !std::equal(there.begin(), there.begin() + end, request.tokens.begin()))
        broken(name + " has page " + std::to_string(page) + ", which holds other tokens");
    }
  }
  int64_t used = 0;
  for (int32_t page = 0; page < pages_.size(); ++page) {
    used += holders[page] > 0;
    if (holders[page] != pages_.holders(page))
      broken("page " + std::to_string(page) + " counts " + counted(pages_.holders(page), "holder") +
             ", and has " + std::to_string(holders[page]));
  }
  if (used != pages_.used())
    broken(counted(pages_.used(), "page") + " are not free, and " + std::to_string(used) +
           " are held");
}

}  // namespace fa::ch24

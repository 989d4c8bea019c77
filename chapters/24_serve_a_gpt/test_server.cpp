// Whatever shares, waits, leaves or is guessed, the server's tokens are those of each request
// alone.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "chapters/20_train_a_gpt/text.hpp"
#include "server.hpp"
#include "verdict.hpp"

using namespace fa::ch24;
namespace ch20 = fa::ch20;

namespace {

const std::u32string kText = U"abcdefghijk abcdefghijk abcdefghijk abcdefghijk abcdefghijk";

// Weights far from their initial values, so that attention has an effect.
const ch20::TrainingState& model() {
  static const ch20::TrainingState trained = [] {
    ch20::TrainingState state =
        ch20::start_training({{0, 40, 2, 2, 16}, 1}, ch20::Vocabulary::of(kText), kText, 3);
    for (float& weight : state.weights) weight *= 6;
    return state;
  }();
  return trained;
}

// Requests that share their beginnings, two by two and all of them, one each second step.
std::vector<Request> requests(int64_t count, int64_t wanted) {
  std::vector<Request> all;
  for (int64_t i = 0; i < count; ++i) {
    Tokens tokens = {1, 2, 3, 4, 5, 6};
    for (int64_t t = 0; t < 3 + i % 3; ++t)
      tokens.push_back(static_cast<int32_t>((i / 2 + t) % 12));
    const int64_t length = std::ssize(tokens);
    all.push_back({.number = i,
                   .arrival = 2 * i,
                   .tokens = tokens,
                   .prompt_length = length,
                   .wanted = wanted + i % 4});
  }
  return all;
}

struct Served {
  std::vector<Tokens> tokens;  // tokens of each request, empty if refused
  Totals totals;
  int64_t pages_lost;
  std::string broken_invariant;
  fa::RunResult check;
  int64_t hazards;
};

Served serve(const ServerOptions& options, std::vector<Request> all,
             const std::string& device = "cpu", double bound = 1e-3) {
  const size_t count = all.size();
  Server server(options, model(),
                make_cache_attention(device, cache_shape(options, model().recipe.model)),
                std::move(all));
  server.run();
  Verdict verdict(model(), bound);
  Served served{std::vector<Tokens>(count),
                server.totals(),
                server.pages().used(),
                server.broken_invariant(),
                {},
                server.attention().hazards()};
  for (const Request& request : server.finished()) {
    served.tokens[request.number] = request.tokens;
    verdict.add({request.number, request.tokens, request.prompt_length, request.logits});
  }
  served.check = verdict.numbers();
  return served;
}

void check_whole(const Served& served) {
  CHECK(served.check.passed);
  CHECK(served.check.elements > 0);
  CHECK(served.broken_invariant == "");
  CHECK(served.pages_lost == 0);
}

// One at a time, with its own pages.
std::vector<Tokens> alone(int64_t count, int64_t wanted) {
  const Served served =
      serve({.pages = 10, .page_size = 4, .batch = 1, .sharing = false}, requests(count, wanted));
  check_whole(served);
  return served.tokens;
}

}  // namespace

TEST_CASE("server: together, shared or not, with or without drafts, the tokens are the same") {
  const std::vector<Tokens> expected = alone(8, 12);
  for (const int64_t page_size : {1, 4, 16}) {
    for (const int64_t draft : {0, 1, 4}) {
      for (const bool sharing : {false, true}) {
        CAPTURE(page_size);
        CAPTURE(draft);
        CAPTURE(sharing);
        const Served served = serve({.pages = 160 / page_size,
                                     .page_size = page_size,
                                     .batch = 4,
                                     .draft = draft,
                                     .sharing = sharing},
                                    requests(8, 12));
        check_whole(served);
        CHECK(served.tokens == expected);
        CHECK((served.totals.found > 0) == (sharing && page_size <= 4));
        CHECK(served.totals.put_back == 0);
        if (draft == 0) CHECK(served.totals.drafted == 0);
        if (draft == 4) {
          CHECK(served.totals.accepted > 0);
          CHECK(served.totals.accepted < served.totals.drafted);
        }
      }
    }
  }
}

TEST_CASE("server: the cache is full: requests wait or are put back, and none is lost") {
  const std::vector<Tokens> expected = alone(8, 12);
  int64_t put_back = 0;
  for (const int64_t pages : {7, 8, 10, 13}) {
    for (const int64_t draft : {0, 3}) {
      CAPTURE(pages);
      const Served served =
          serve({.pages = pages, .page_size = 4, .batch = 4, .draft = draft}, requests(8, 12));
      check_whole(served);
      CHECK(served.tokens == expected);
      CHECK(served.totals.most_pages <= pages);
      put_back += served.totals.put_back;
    }
  }
  CHECK(put_back > 0);
}

TEST_CASE("server: a request that can never fit is refused, and the others are answered") {
  std::vector<Request> all = requests(3, 12);
  all[1].wanted = 40;  // more than the context
  const Served served = serve({.pages = 10, .page_size = 4}, all);
  check_whole(served);
  CHECK(served.totals.refused == 1);
  CHECK(served.tokens[1].empty());
  const Served small = serve({.pages = 5, .page_size = 4}, requests(2, 12));  // 21 and 23 tokens
  CHECK(small.totals.refused == 2);
  CHECK(small.totals.tokens == 0);
}

TEST_CASE("server: a request of one token, and one that fills the context") {
  std::vector<Request> all = requests(2, 1);
  all[0].wanted = 1;
  all[1].wanted = 40 - all[1].prompt_length;
  for (const int64_t draft : {0, 5}) {
    const Served served = serve({.pages = 12, .page_size = 4, .draft = draft}, all);
    check_whole(served);
    CHECK(std::ssize(served.tokens[0]) == all[0].prompt_length + 1);
    CHECK(served.tokens[1].size() == 40);
  }
}

TEST_CASE("server: the kernels on the emulator agree within bf16's rounding") {
  const Served served =
      serve({.pages = 16, .page_size = 4, .batch = 3, .draft = 3}, requests(3, 5), "emulator", 0.5);
  check_whole(served);
  CHECK(served.hazards == 0);
  CHECK(served.totals.found > 0);
  CHECK(served.check.max_abs_error > 1e-4);  // they are not the CPU's numbers
}

TEST_CASE("server: every break is caught by the numbers and by an invariant") {
  for (const ServingBreak one : {PAGE_FREED_EARLY, STALE_PAGE, LENGTHS_OFF_BY_ONE}) {
    CAPTURE(static_cast<int>(one));
    const Served served = serve(
        {.pages = 14, .page_size = 4, .batch = 4, .draft = 4, .breaks = {one}}, requests(12, 12));
    CHECK_FALSE(served.check.passed);
    CHECK(served.broken_invariant != "");
  }
}

TEST_CASE("verdict: a wrong token, a wrong logit and a NaN fail; a near tie is named") {
  Tokens tokens = {1, 2, 3, 4};
  const auto vocabulary = model().recipe.model.vocabulary;
  Server server(
      {.pages = 10, .page_size = 4}, model(),
      make_cache_attention("cpu", cache_shape({.pages = 10, .page_size = 4}, model().recipe.model)),
      {{.number = 7, .arrival = 0, .tokens = tokens, .prompt_length = 4, .wanted = 6}});
  server.run();
  const Request& right = server.finished().at(0);
  REQUIRE(std::ssize(right.logits) == 6 * vocabulary);
  const auto verdict_of = [&](const Tokens& all, const std::vector<float>& logits,
                              double bound = 1e-3) {
    Verdict verdict(model(), bound);
    verdict.add({7, all, 4, logits});
    return verdict;
  };
  CHECK(verdict_of(right.tokens, right.logits).numbers().passed);
  CHECK(verdict_of(right.tokens, right.logits).numbers().elements == 6 * vocabulary);
  Tokens wrong = right.tokens;
  wrong[9] = (wrong[9] + 1) % static_cast<int32_t>(vocabulary);  // the last one changes no input
  CHECK_FALSE(verdict_of(wrong, right.logits).numbers().passed);
  for (const float value : {1e3f, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> logits = right.logits;
    logits[3 * vocabulary + 1] = value;
    const Verdict verdict = verdict_of(right.tokens, logits);
    CHECK_FALSE(verdict.numbers().passed);
    CHECK(verdict.first_wrong().starts_with("request 7, token 3"));
    CHECK((verdict.numbers().nonfinite > 0) == std::isnan(value));
    CHECK(std::isnan(verdict.numbers().max_abs_error) == std::isnan(value));
  }
  // With a bound as large as this, rounding could change the first choice.
  CHECK(verdict_of(right.tokens, right.logits).undecided().empty());
  const std::vector<Undecided> undecided = verdict_of(right.tokens, right.logits, 1e3).undecided();
  REQUIRE(undecided.size() == 1);
  CHECK(undecided[0].request == 7);
  CHECK(undecided[0].token == 0);
}

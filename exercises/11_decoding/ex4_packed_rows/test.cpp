#include <doctest/doctest.h>

#include <packed_rows.hpp>
#include <vector>

#include "exercises/support/verdict.hpp"

using exercise::Numbers;

struct Case {
  int kv_head, group, len_q, length;
};

// The row as people write it: right as it stands here, each mistake is a change to it.
struct Way {
  enum Order { kHeadsFirst, kQueriesFirst, kByQueries } order = kHeadsFirst;
  enum First { kTimesGroup, kHeadItself, kZero, kTimesLength } first = kTimesGroup;
  enum End {
    kBottomRight,
    kTopLeft,
    kByRow,
    kLastKey,
    kAll,
    kAlwaysSome,
    kOneMore
  } end = kBottomRight;
  enum Exists { kBoth, kGroupOnly, kQueriesOnly, kAlways, kOneTooMany } exists = kBoth;

  void add(Numbers& to, const Case& c, int row) const {
    const int rows = exists == kGroupOnly     ? c.group
                     : exists == kQueriesOnly ? c.len_q
                                              : c.group * c.len_q;
    const bool there = exists == kAlways || row < rows + (exists == kOneTooMany ? 1 : 0);
    const int inside = order == kHeadsFirst     ? row % c.group
                       : order == kQueriesFirst ? row / c.len_q
                                                : row % c.len_q;
    const int query = order == kHeadsFirst     ? row / c.group
                      : order == kQueriesFirst ? row % c.len_q
                                               : row / c.len_q;
    const int head = inside + (first == kTimesGroup    ? c.kv_head * c.group
                               : first == kHeadItself  ? c.kv_head
                               : first == kTimesLength ? c.kv_head * c.len_q
                                                       : 0);
    const int right = query + c.length - c.len_q + 1;
    const int seen = end == kTopLeft      ? query + 1
                     : end == kByRow      ? row + c.length - c.len_q + 1
                     : end == kLastKey    ? right - 1
                     : end == kAll        ? c.length
                     : end == kAlwaysSome ? (right > 1 ? right : 1)
                     : end == kOneMore    ? right + 1
                                          : right;
    to.push_back(there);
    to.push_back(there ? head : 0);
    to.push_back(there ? query : 0);
    to.push_back(there && seen > 0 ? seen : 0);
  }
};

static void check_tile(const Case& c) {
  const int rows = c.group * c.len_q + 3;
  const auto all = [&](const Way& way) {
    Numbers result;
    for (int row = 0; row < rows; ++row) way.add(result, c, row);
    return result;
  };
  Numbers got;
  for (int i = 0; i < rows; ++i) {
    const Row row = row_of(c.kv_head, c.group, c.len_q, c.length, i);
    got.push_back(row.exists);
    got.push_back(row.exists ? row.head : 0);
    got.push_back(row.exists ? row.query : 0);
    got.push_back(row.exists && row.end_key > 0 ? row.end_key : 0);
  }
  using W = Way;
  std::vector<exercise::Mistake> mistakes;
  const auto mistake = [&](const char* name, const char* explanation, const Way& way) {
    mistakes.push_back({name, all(way), explanation});
  };
  mistake(
      "queries-first",
      "rows run over the queries of one head, then over the next head's; heads run fastest: row % "
      "group and row / group",
      {.order = W::kQueriesFirst});
  mistake("divided-by-queries", "% and / go by len_q; a round is the heads of the group",
          {.order = W::kByQueries});
  mistake("kv-head-for-head",
          "the heads begin at kv_head; in front of them are kv_head groups: kv_head * group",
          {.first = W::kHeadItself});
  mistake("kv-head-forgotten",
          "every head of K has heads 0 up to group - 1 of Q; its own begin at kv_head * group",
          {.first = W::kZero});
  mistake("head-by-queries", "the heads begin at kv_head * len_q; a head of K has `group` of Q",
          {.first = W::kTimesLength});
  mistake(
      "top-left-aligned",
      "query i stands at key i, as if the first query met the first key; the last one meets the "
      "last key: + length - len_q",
      {.end = W::kTopLeft});
  mistake("mask-by-row",
          "the row was taken for the query in the mask: rows of one query see the same keys",
          {.end = W::kByRow});
  mistake("own-key-hidden", "a query sees the key where it stands, too: + 1", {.end = W::kLastKey});
  mistake("next-key-seen", "each query sees one key too many", {.end = W::kOneMore});
  mistake("sees-all-keys", "every query sees all keys; those behind its own are hidden",
          {.end = W::kAll});
  mistake("one-key-at-least", "a query that stands before key 0 was given one key; it sees none",
          {.end = W::kAlwaysSome});
  mistake("rows-of-one-query",
          "there are group * len_q rows; those of the first query were counted",
          {.exists = W::kGroupOnly});
  mistake("rows-of-one-head", "there are group * len_q rows; those of one head were counted",
          {.exists = W::kQueriesOnly});
  mistake("every-row-exists", "rows past group * len_q do not exist", {.exists = W::kAlways});
  mistake("one-row-too-many", "row group * len_q was counted; rows count from 0",
          {.exists = W::kOneTooMany});
  exercise::check_output({"row", 4, 0, {"exists", "head", "query", "end_key"}}, got, all(Way{}),
                         mistakes);
}

TEST_CASE("one query, four heads") { check_tile({0, 4, 1, 20}); }
TEST_CASE("the next head of K") { check_tile({2, 4, 1, 20}); }
TEST_CASE("the README's") { check_tile({1, 3, 2, 9}); }
TEST_CASE("heads with keys of their own") { check_tile({5, 1, 4, 11}); }
TEST_CASE("many new queries") { check_tile({1, 2, 5, 12}); }
TEST_CASE("fewer keys than queries") { check_tile({1, 2, 5, 3}); }
TEST_CASE("no key yet") { check_tile({3, 2, 2, 0}); }

// Pages with several holders, and the index that finds them by their tokens.
#include <doctest/doctest.h>

#include "pages.hpp"

using namespace fa::ch24;

TEST_CASE("pages: the last holder frees a page, and the oldest free page is taken first") {
  SharedPages pages(3, 4);
  CHECK(*pages.take() == 0);
  CHECK(*pages.take() == 1);
  pages.share(0);
  CHECK(pages.shared() == 1);
  pages.release(0);
  CHECK(pages.holders(0) == 1);
  CHECK(pages.used() == 2);
  pages.release(1);
  pages.release(0);
  CHECK(pages.used() == 0);
  CHECK(*pages.take() == 2);  // never used
  CHECK(*pages.take() == 1);  // freed before 0
  CHECK(*pages.take() == 0);
  CHECK_FALSE(pages.take().has_value());
}

TEST_CASE("pages: a free page can be held again, and is then not taken") {
  SharedPages pages(2, 4);
  const int32_t page = *pages.take();
  pages.release(page);
  pages.share(page);
  CHECK(pages.holders(page) == 1);
  CHECK(*pages.take() == 1 - page);
  CHECK_FALSE(pages.take().has_value());
  pages.release(page);
  CHECK_THROWS_AS(pages.release(page), std::logic_error);
}

TEST_CASE("pages: the index finds full pages of the same beginning, and leaves one token") {
  SharedPages pages(4, 2);
  const Tokens text = {5, 6, 7, 8, 9};
  const int32_t first = *pages.take(), second = *pages.take();
  pages.publish(first, std::span(text).first(2));
  pages.publish(second, std::span(text).first(4));
  CHECK(pages.find(text) == std::vector<int32_t>{first, second});
  CHECK(pages.find(Tokens{5, 6, 7, 8}) == std::vector<int32_t>{first});  // 8 gives the logits
  CHECK(pages.find(Tokens{5, 6}).empty());
  CHECK(pages.find(Tokens{5, 6, 7}) == std::vector<int32_t>{first});
  CHECK(pages.find(Tokens{5, 7, 7, 8, 9}).empty());
  CHECK(pages.find(Tokens{7, 8, 9}).empty());  // the same tokens, but not at the beginning
  // Another page with the same tokens does not replace the first one.
  const int32_t other = *pages.take();
  pages.publish(other, std::span(text).first(2));
  CHECK(pages.find(Tokens{5, 6, 7}) == std::vector<int32_t>{first});
}

TEST_CASE("pages: the index forgets a page when it is taken, not when it is released") {
  SharedPages pages(1, 2);
  const Tokens text = {5, 6, 7};
  pages.publish(*pages.take(), std::span(text).first(2));
  pages.release(0);
  CHECK(pages.find(text).size() == 1);
  CHECK(*pages.take() == 0);
  CHECK(pages.find(text).empty());
}

TEST_CASE("pages: reserve takes all pages or none; trim keeps those with tokens") {
  SharedPages pages(3, 4);
  Sequence a, b;
  CHECK(pages.reserve(a, 5));
  CHECK(a.pages == std::vector<int32_t>{0, 1});
  a.length = 5;
  CHECK(pages.reserve(a, 3));  // row 8 is not needed yet
  CHECK(a.pages.size() == 2);
  CHECK_FALSE(pages.reserve(b, 5));
  CHECK(b.pages.empty());
  CHECK(pages.free() == 1);
  CHECK(pages.reserve(a, 4));
  CHECK(pages.free() == 0);
  pages.trim(a);
  CHECK(a.pages == std::vector<int32_t>{0, 1});
  CHECK(pages.free() == 1);
  pages.release(a);
  CHECK(a.pages.empty());
  CHECK(a.length == 0);
  CHECK(pages.used() == 0);
}

TEST_CASE("pages: free_among counts pages that a new holder takes from the free list") {
  SharedPages pages(3, 4);
  pages.take();
  pages.take();
  pages.release(0);
  CHECK(pages.free_among(std::vector<int32_t>{0, 1}) == 1);
}

// The module's one entry: a chapter's program as its main() calls it, with the words of a command
// line. What it prints and writes goes to host.mjs.

#include <iostream>
#include <string_view>
#include <vector>

#include "chapters/03_basic_kernel/chapter.hpp"
#include "chapters/04_swizzling/chapter.hpp"
#include "chapters/05_pipelining/chapter.hpp"
#include "chapters/06_ldmatrix_x4/chapter.hpp"
#include "chapters/07_better_pipelining/chapter.hpp"
#include "chapters/08_fewer_instructions/chapter.hpp"
#include "chapters/09_masks_and_shapes/chapter.hpp"
#include "chapters/12_tma/chapter.hpp"
#include "chapters/13_wgmma/chapter.hpp"
#include "chapters/14_warp_specialization/chapter.hpp"
#include "chapters/15_overlap/chapter.hpp"
#include "chapters/16_maximum_on_demand/chapter.hpp"
#include "common/error.hpp"
#include "common/kernels/kernel_program.hpp"

namespace {

const fa::KernelChapter* const kChapters[] = {
    &ch03::CHAPTER, &ch04::CHAPTER, &ch05::CHAPTER, &ch06::CHAPTER, &ch07::CHAPTER, &ch08::CHAPTER,
    &ch09::CHAPTER, &ch12::CHAPTER, &ch13::CHAPTER, &ch14::CHAPTER, &ch15::CHAPTER, &ch16::CHAPTER};

}  // namespace

extern "C" {

__attribute__((export_name("fa_allocate"))) void* fa_allocate(size_t bytes) {
  return ::operator new(bytes);
}

/// `words`: `count` strings, each with a zero behind it; the first is the program's name. Frees
/// them. Returns the program's exit status, or -1 if there is no such program here.
__attribute__((export_name("fa_run"))) int fa_run(char* words, int count) {
  std::vector<char*> arguments;
  char* word = words;
  for (int i = 0; i < count; ++i) {
    arguments.push_back(word);
    word += std::string_view(word).size() + 1;
  }
  int status = -1;
  for (const fa::KernelChapter* chapter : kChapters) {
    if (arguments[0] != std::string_view(chapter->name)) continue;
    status = fa::run_kernel_program(*chapter, count, arguments.data());
  }
  std::cout.flush();
  ::operator delete(words);
  return status;
}

}  // extern "C"

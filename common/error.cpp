#include "common/error.hpp"

#include <iostream>
#include <new>
#include <stdexcept>

namespace fa {

int guarded_main(int argc, char** argv, int (*body)(int, char**)) {
  try {
    return body(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "error: not enough memory for this size\n";
  } catch (const std::length_error&) {  // longer than any memory: where addresses have 32 bits
    std::cerr << "error: not enough memory for this size\n";
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
  }
  return kBadInput;
}

}  // namespace fa

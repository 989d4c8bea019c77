#include "common/guarded_main.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <stdexcept>

namespace fa {

bool output_is_written() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  std::cerr << "error: standard output cannot be written"
            << (errno == 0 ? std::string() : std::string(": ") + std::strerror(errno)) << '\n';
  return false;
}

int guarded_main(int argc, char** argv, const std::function<int(int, char**)>& body) {
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a write that exceeds the file size limit then fails with an
                                  // error
#endif
  try {
    const int code = body(argc, argv);
    return output_is_written() ? code : kBadInput;
  } catch (const std::bad_alloc&) {
    std::cerr << "error: not enough memory for this size\n";
  } catch (const std::length_error&) {  // longer than any memory, with 32-bit addresses
    std::cerr << "error: not enough memory for this size\n";
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
  }
  return kBadInput;
}

}  // namespace fa

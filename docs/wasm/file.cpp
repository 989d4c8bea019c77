// common/file.hpp in a page: there are no files to read, and the host keeps what is written.
#include "common/file.hpp"

#include "common/error.hpp"
#include "docs/wasm/host.hpp"

namespace fa {

std::string read_file(const std::string& path) {
  throw InputError(path + ": cannot open: there are no files here");
}

void check_writable(const std::string&) {}

void write_file(const std::string& path, std::string_view bytes) {
  host_write_file(path.c_str(), bytes.data(), bytes.size());
}

}  // namespace fa

// Implements common/file.hpp in a page. A program can read the files of its request, and the host
// stores the files that it writes.
#include "common/file.hpp"

#include <filesystem>
#include <map>

#include "common/error.hpp"
#include "docs/wasm/host.hpp"

namespace fa {
namespace {

std::map<std::string, std::string, std::less<>> files;

}  // namespace

std::string read_file(const std::string& path) {
  const auto found = files.find(path);
  if (found == files.end()) throw InputError(path + ": cannot open: No such file or directory");
  return found->second;
}

void check_files(std::span<const FileArgument>) {}

void write_file(const std::string& path, std::string_view bytes) {
  host_write_file(path.c_str(), bytes.data(), bytes.size());
}

}  // namespace fa

bool std::filesystem::exists(std::string_view path) { return fa::files.contains(path); }

/// Adds a file for the next run, which is its name, a zero, its content, `count` bytes in total.
/// Frees the bytes.
extern "C" __attribute__((export_name("fa_give_file"))) void fa_give_file(char* bytes,
                                                                          size_t count) {
  const std::string name = bytes;
  fa::files[name] = std::string(bytes + name.size() + 1, bytes + count);
  ::operator delete(bytes);
}

#include "common/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/error.hpp"

namespace fa {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw InputError(path + ": cannot " + what + ": " + std::strerror(errno));
}

// A descriptor that closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

bool exists_and_is_special(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(path, "write");
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// The path that a rename should replace: a symbolic link stays one, its target is written.
std::string resolved(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) fail(path, "open");
  std::string bytes;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t count = read(file.number, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "read");
    if (count == 0) return bytes;
    bytes.append(chunk, static_cast<size_t>(count));
  }
}

void check_writable(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) throw InputError(path + ": cannot write: it is a directory");
    if (access(path.c_str(), W_OK) != 0) fail(path, "write");
    if (!S_ISREG(status.st_mode)) return;
  }
  const std::string target = resolved(path);
  const size_t slash = target.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  if (access(directory.c_str(), W_OK | X_OK) != 0) fail(path, "write");
}

void write_file(const std::string& path, std::string_view bytes) {
  check_writable(path);
  if (exists_and_is_special(path)) {
    const Descriptor file{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (file.number < 0) fail(path, "open");
    write_all(file.number, bytes, path);
    return;
  }
  const std::string target = resolved(path);
  const std::string temporary = target + ".partial-" + std::to_string(getpid());
  const Descriptor file{open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (file.number < 0) fail(temporary, "create");  // somebody else's file, perhaps: it stays
  try {
    write_all(file.number, bytes, path);
    if (fsync(file.number) != 0) fail(path, "write");
    if (rename(temporary.c_str(), target.c_str()) != 0) fail(path, "write");
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

}  // namespace fa

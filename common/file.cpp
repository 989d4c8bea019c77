#include "common/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>

#include "common/error.hpp"

namespace fa {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw InputError(path + ": cannot " + what + ": " + std::strerror(errno));
}

// Closes a file descriptor when it is destroyed.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

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

// Returns the file that a path names, which is the end of a chain of symbolic links, in a directory
// without links. Neither the file nor the directory has to exist.
fs::path target_of(const std::string& path) {
  std::error_code error;
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  const fs::path directory = target.has_parent_path() ? target.parent_path() : fs::path(".");
  return fs::weakly_canonical(directory, error) / target.filename();
}

std::atomic<const char*> file_to_remove{nullptr};

// The handler of a signal that ends the process. SA_RESETHAND has restored the default action, so
// the raised signal ends it when the handler returns.
void remove_and_raise(int number) {
  if (const char* path = file_to_remove.exchange(nullptr)) unlink(path);
  raise(number);
}

// While it exists, each signal that ends the process removes this file first. A signal that the
// program handles or ignores already is left unchanged.
class RemovedBySignals {
 public:
  explicit RemovedBySignals(const char* path) {
    file_to_remove = path;
    struct sigaction action = {};
    action.sa_handler = remove_and_raise;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (size_t i = 0; i < std::size(SIGNALS); ++i) {
      sigaction(SIGNALS[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_DFL) sigaction(SIGNALS[i], &action, nullptr);
    }
  }
  ~RemovedBySignals() {
    for (size_t i = 0; i < std::size(SIGNALS); ++i) sigaction(SIGNALS[i], &before_[i], nullptr);
    file_to_remove = nullptr;
  }
  RemovedBySignals(const RemovedBySignals&) = delete;
  RemovedBySignals& operator=(const RemovedBySignals&) = delete;

 private:
  static constexpr int SIGNALS[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
  struct sigaction before_[std::size(SIGNALS)];
};

// A new file next to the one that it may replace. It is removed unless it replaces that file.
class PartialFile {
 public:
  explicit PartialFile(const std::string& path)
      : path_(path), target_(target_of(path)), temporary_(temporary_name()) {
    struct stat old;
    const bool replaces = stat(path.c_str(), &old) == 0;
    if (!replaces && errno != ENOENT)
      fail(path, "write");  // for example a name too long, or a
                            // cycle of links
    if (replaces && S_ISDIR(old.st_mode)) {
      throw InputError(path + ": cannot write: it is a directory");
    }
    if (replaces && access(path.c_str(), W_OK) != 0) fail(path, "write");
    file_.number = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_.number < 0 && errno == EEXIST)
      fail(temporary_, "create");  // another program has
                                   // created this file
    if (file_.number < 0) fail(path, "write");
    signals_.emplace(temporary_.c_str());
    if (!replaces) return;
    // The owner is set first, because changing it clears bits of the mode. Only root can keep an
    // owner other than itself.
    [[maybe_unused]] const int same_owner = fchown(file_.number, old.st_uid, old.st_gid);
    fchmod(file_.number, old.st_mode & 07777);
  }
  ~PartialFile() {
    if (signals_) unlink(temporary_.c_str());
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::string_view bytes) { write_all(file_.number, bytes, path_); }

  void replace_target() {
    if (fsync(file_.number) != 0) fail(path_, "write");
    if (rename(temporary_.c_str(), target_.c_str()) != 0) fail(path_, "write");
    signals_.reset();
  }

 private:
  // A name has at most 255 bytes, so a long target name is cut.
  std::string temporary_name() const {
    const std::string ending = ".partial-" + std::to_string(getpid());
    return target_.parent_path() /
           (target_.filename().string().substr(0, 255 - ending.size()) + ending);
  }

  const std::string path_;
  const fs::path target_;
  const std::string temporary_;
  Descriptor file_{-1};
  std::optional<RemovedBySignals> signals_;  // while the temporary file exists
};

// True for a pipe or a device, which a rename must not replace.
bool is_special(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool same_file(const struct stat& a, const struct stat& b) {
  return S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat of_a, of_b;
  if (stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0) return same_file(of_a, of_b);
  return target_of(a) == target_of(b);
}

bool is_standard_output(const std::string& path) {
  struct stat of_path, of_output;
  return stat(path.c_str(), &of_path) == 0 && fstat(STDOUT_FILENO, &of_output) == 0 &&
         same_file(of_path, of_output);
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

void write_file(const std::string& path, std::string_view bytes) {
  if (is_special(path)) {
    const Descriptor file{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (file.number < 0) fail(path, "open");
    return write_all(file.number, bytes, path);
  }
  PartialFile partial(path);
  partial.write(bytes);
  partial.replace_target();
}

void check_files(std::span<const FileArgument> files) {
  for (const FileArgument& file : files) {
    if (file.path.empty()) throw InputError(file.option + ": empty path");
    if (!file.written) continue;
    for (const FileArgument& other : files) {
      if (&other == &file || !same_file(file.path, other.path)) continue;
      throw InputError(file.option + " " + file.path + " and " + other.option + " " + other.path +
                       " are the same file: " + file.option + " would overwrite it");
    }
    if (is_standard_output(file.path)) {
      throw InputError(file.option + " " + file.path + ": standard output goes to this file");
    }
    if (!is_special(file.path)) {
      PartialFile(file.path);
    } else if (access(file.path.c_str(), W_OK) != 0) {
      fail(file.path, "write");
    }
  }
}

}  // namespace fa

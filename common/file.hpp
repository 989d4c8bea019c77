#pragma once
// Reads and writes whole files, so that no file is ever incomplete.

#include <span>
#include <string>
#include <string_view>

namespace fa {

// Returns the bytes of a file. Throws InputError with the path and the system's reason.
std::string read_file(const std::string& path);

// Writes a temporary file next to `path` and renames it, so that the file has either its old
// content or all of the new. If `path` is a symbolic link, its target is written, even if that does
// not exist yet. An existing file keeps its mode. A signal that ends the process removes the
// temporary file first. A pipe or a device such as /dev/null is written in place. Throws
// InputError.
void write_file(const std::string& path, std::string_view bytes);

// A file that a command line names.
struct FileArgument {
  std::string option, path;
  bool written;  // written by the program, or else only read
};

// Throws InputError if write_file would fail for a file to be written, or if such a file is also
// another file of the command line (by any path) or standard output. Programs call it before they
// compute for minutes. Leaves no file behind.
void check_files(std::span<const FileArgument> files);

}  // namespace fa

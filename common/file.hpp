#pragma once
// Whole files, read and written so that nothing is ever half there.

#include <cstddef>
#include <string>
#include <string_view>

namespace fa {

// The bytes of a file. Throws InputError with the path and the system's reason.
std::string read_file(const std::string& path);

// Writes a temporary file beside `path` and renames it: either the old content or all of the new.
// What is not a regular file (/dev/null, a pipe) is written in place. Throws InputError.
void write_file(const std::string& path, std::string_view bytes);

// Throws InputError unless write_file(path, …) can be expected to work; writes nothing. Asked
// before minutes of computing, not after.
void check_writable(const std::string& path);

}  // namespace fa

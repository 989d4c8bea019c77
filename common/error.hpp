#pragma once
// Errors that a user can cause, and the exit codes of programs.

#include <stdexcept>
#include <string>

namespace fa {

// Bad input or usage. what() is one sentence that says what was wrong and what is accepted.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown if there is too little memory. The caller knows which setting would need less.
struct OutOfMemory : InputError {
  using InputError::InputError;
};

// Exit codes of every program: 0 if it ran and agreed with the reference, 1 if it ran and did not
// agree, 2 for bad input.
enum ExitCode : int { kAgreed = 0, kDisagreed = 1, kBadInput = 2 };

// True if everything that was printed has reached standard output. Otherwise (for example on a full
// disk) prints one line `error: …` on stderr.
bool output_is_written();

}  // namespace fa

#pragma once
// Errors a user can cause, and the one place where they become an exit code.

#include <stdexcept>
#include <string>

namespace fa {

// Bad input or usage. what() is one sentence that says what was wrong and what is accepted.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The machine has too little of something. The caller knows which setting asks for less.
struct TooLittle : InputError {
  using InputError::InputError;
};

// Exit codes of every program: 0 ran and agreed with the reference, 1 ran and did not, 2 bad input.
enum ExitCode : int { kAgreed = 0, kDisagreed = 1, kBadInput = 2 };

// True if all that was printed has reached standard output. Otherwise prints one line `error: …` on
// stderr: the disk is full, for example.
bool output_is_written();

// Runs `body`; whatever it throws becomes one line `error: …` on stderr and exit code 2, and so
// does output that could not be written.
int guarded_main(int argc, char** argv, int (*body)(int, char**));

}  // namespace fa

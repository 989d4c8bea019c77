// Trace files. One line is a directive, an instruction, a comment after '#', or empty:
//
//     .machine mac                     # or alu
//     .registers 3
//     .operands fixed                  # MAC only: R0 and R1 (default), or any
//     .input a[2][2] = 1, 2, 3, 4      # without '=': 1, 2, 3, …
//     .output c[2][2]
//     .check matmul                    # what c must be (verify.hpp); `matmul c[0][0]`: one cell
//     22 cycles                        # a promise: run fails if it costs anything else
//
//     LOAD a[0][0], R0
//     MAX R0, R1, R1 -> m2 @no-max     # the table calls the result m2; --break no-max removes it
#pragma once

#include <string>
#include <vector>

#include "program.hpp"

namespace ch01 {

// Reads a trace. `name` heads the messages. Throws fa::InputError "name:line:column: what is wrong,
// what is accepted" for everything that can be wrong with one line.
Program parse_program(const std::string& text, const std::string& name);

// Reads and parses the file. Throws fa::InputError, also for a file that cannot be read.
Program read_program(const std::string& path);

// Walks the program once without computing: every register exists and holds something when it is
// read, every cell read was written, a MAC's operands follow the rule. Throws fa::InputError with
// line and column. A program that passes runs to its end.
void validate(const Program& program);

}  // namespace ch01

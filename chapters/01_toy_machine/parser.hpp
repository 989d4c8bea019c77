// Parses trace files. A line is a directive, an instruction, a comment after '#', or empty:
//
//     .machine mac                     # or alu
//     .registers 3
//     .operands fixed                  # MAC only: R0 and R1 (default), or any
//     .input a[2][2] = 1, 2, 3, 4      # without '=': 1, 2, 3, …
//     .output c[2][2]
//     .check matmul                    # the expected c (verify.hpp); `matmul c[0][0]`: one cell
//     22 cycles                        # the run fails if it takes another number of cycles
//
//     LOAD a[0][0], R0
//     MAX R0, R1, R1 -> m2 @no-max     # the table's name is m2; --break no-max removes it
#pragma once

#include <string>
#include <vector>

#include "program.hpp"

namespace ch01 {

// Parses a trace. Error messages start with `name`. Throws fa::InputError "name:line:column: …"
// with the error and the accepted input, for every error that can be found in a single line.
Program parse_program(const std::string& text, const std::string& name);

// Reads and parses a file. Also throws fa::InputError if the file cannot be read.
Program read_program(const std::string& path);

// Checks the program without computing. Every register exists and is written before it is read,
// every cell is written before it is read, and a MAC's operands follow the operand rule. Throws
// fa::InputError with line and column. A program that passes cannot fail at run time.
void validate(const Program& program);

}  // namespace ch01

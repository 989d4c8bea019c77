// Prints a run, that is, the table, the cost, the result and the JSON file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "machine.hpp"
#include "verify.hpp"

namespace ch01 {

// Returns the table step │ instruction │ R0 │ R1 │ …, with every register after every instruction
// as a formula and, below it, as a number. Needs a run with `keep_steps`.
std::string table_text(const Program& program, const Run& run);

// Returns three lines, which are cycles, DRAM traffic and arithmetic intensity.
std::string cost_text(const Cost& cost);

// Returns the outputs row by row and whether they agree with the direct computation.
std::string result_text(const Program& program, const Run& run, const Verdict& verdict);

// Keys: chapter program machine breaks cycles loads stores macs flops passes dram_reads dram_writes
// dram_bytes register_count arrays[{name, shape[], input, values[]}] outputs{} check{} steps[{step,
// instruction, op, line, reads[], writes, number, cell{array, index, name}, registers[], symbols[],
// formula}]. A register is null if it is empty (its symbol is null too) or not finite. `number` is
// the value that a step wrote. `values` are an array's values before the run, formatted as in the
// tables. `writes` and `cell` are omitted if the step has none.
nlohmann::json json_of(const Program& program, const Run& run, const Verdict& verdict,
                       const std::vector<std::string>& break_names);

// Returns rows of cells under a heading (the first row). All columns have the same width, counted
// in characters. The first `right` columns are right-aligned.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t right);

}  // namespace ch01

// What a run looks like: the table, the cost, the result, the JSON file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "machine.hpp"
#include "verify.hpp"

namespace ch01 {

// step │ instruction │ R0 │ R1 │ …: every register after every instruction, as a formula and,
// below it, as a number. Needs the steps of the run.
std::string table_text(const Program& program, const Run& run);

// Cycles, DRAM traffic, arithmetic intensity; three lines.
std::string cost_text(const Cost& cost);

// The outputs, row by row, and whether they agree with the direct computation.
std::string result_text(const Program& program, const Run& run, const Verdict& verdict);

// Keys: chapter program machine breaks cycles loads stores macs flops passes dram_reads dram_writes
// dram_bytes register_count arrays[{name, shape[], input, values[]}] outputs{} check{} steps[{step,
// instruction, op, line, reads[], writes, number, cell{array, index, name}, registers[], symbols[],
// formula}]. A register is null when it is empty (its symbol is null too) or not finite. Of a step
// `number` is what it wrote, and an array's values what it held before the run, as tables show
// them; `writes` and `cell` are left out where there is none.
nlohmann::json json_of(const Program& program, const Run& run, const Verdict& verdict,
                       const std::vector<std::string>& break_names);

// Rows of cells under a heading (the first row), in columns of equal width, counted in characters;
// the first `right` columns are right-aligned.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t right);

}  // namespace ch01

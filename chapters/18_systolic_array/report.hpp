// The output of the commands, and their JSON files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "attention_model.hpp"
#include "matmul.hpp"
#include "schedule.hpp"

namespace ch18 {

std::string trace_text(const MatmulRequest& request, const MatmulRun& run);
std::string matmul_text(const MatmulRequest& request, const MatmulRun& run);
nlohmann::json matmul_json(const MatmulRequest& request, const MatmulRun& run,
                           const std::vector<std::string>& break_names);

std::string attention_text(const AttentionShape& shape, Accounting accounting,
                           const Machine& machine, const AttentionCost& cost);
nlohmann::json attention_json(const AttentionShape& shape, Accounting accounting,
                              const Machine& machine, const AttentionCost& cost);
const char* name_of(Accounting accounting);

// Returns the four accounts and further features of the machine, with one assumption changed per
// row.
std::string assumptions_text(std::int64_t n, std::int64_t dim, bool causal);

std::string loop_table(const LoopShape& shape);            // all four loops
std::string loop_text(Loop loop, const LoopShape& shape);  // one, with its critical path
std::string loops_text();                                  // compared with the article's
                                                           // measurements
std::string roofline_text(std::int64_t dim);
std::string traffic_text();
std::string inside_text(std::int64_t size);  // softmax outside the array and inside

}  // namespace ch18

#pragma once
// Reports the counts of a run on the CPU, as text and for --json.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cpu_backward.hpp"

namespace fa::ch10 {

std::string profile_table(const Report& report);
std::string trace_table(const Traffic& traffic);  // tensors that are loaded, added to, completed
nlohmann::json as_json(const Report& report);     // including every step if they were traced

}  // namespace fa::ch10

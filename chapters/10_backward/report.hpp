#pragma once
// What a run on the CPU counted: for people, and for --json.

#include <nlohmann/json.hpp>
#include <string>

#include "cpu_backward.hpp"

namespace fa::ch10 {

std::string profile_table(const Report& report);
std::string trace_table(const Traffic& traffic);  // what is loaded, added to, completed
nlohmann::json as_json(const Report& report);     // with every step, if they were traced

}  // namespace fa::ch10

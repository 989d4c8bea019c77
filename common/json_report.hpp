#pragma once
// The --json file of every program.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fa {

// A number as JSON has it: what is not finite becomes null, never 0 and never a missing key.
nlohmann::json json_number(double value);

// Writes pretty-printed JSON and a newline; complete or not at all. Throws InputError.
void write_json(const std::string& path, const nlohmann::json& report);

}  // namespace fa

#pragma once
// Writes the --json file of every program.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fa {

// A JSON value in a header, because only sources include nlohmann/json.hpp, which takes 2 s to
// compile.
using JsonPointer = std::shared_ptr<nlohmann::json>;
JsonPointer shared_json(nlohmann::json value);

// Returns a JSON number, or null for a value that is not finite.
nlohmann::json json_number(double value);

// Writes pretty-printed JSON and a newline. The file is complete or absent. Throws InputError.
void write_json(const std::string& path, const nlohmann::json& report);

}  // namespace fa

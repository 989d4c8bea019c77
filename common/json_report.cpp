#include "common/json_report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/file.hpp"

namespace fa {

JsonPointer shared_json(nlohmann::json value) {
  return std::make_shared<nlohmann::json>(std::move(value));
}

nlohmann::json json_number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

void write_json(const std::string& path, const nlohmann::json& report) {
  write_file(path, report.dump(2) + "\n");
}

}  // namespace fa

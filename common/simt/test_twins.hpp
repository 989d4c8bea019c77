#pragma once
// Runs kernels that have exactly one hazard, and their corrected twins, under many schedules.

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>

#include "common/simt/hazard_log.hpp"
#include "common/simt/hopper.hpp"
#include "common/simt/simt.hpp"

namespace fa::simt {

inline std::string kinds(const Report& report) {
  std::set<std::string> names;
  for (const Hazard& hazard : report.hazards) names.insert(hazard_name(hazard.kind));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

inline std::string texts(const Report& report) {
  std::string text;
  for (const Hazard& hazard : report.hazards) text += hazard.text + "\n";
  return text;
}

/// Checks that run(config, broken) reports exactly the hazards `expected` under every schedule, at
/// the same places, and that the intact kernel reports none. Returns the texts of the broken kernel
/// under the natural order.
inline std::string check_twins(const std::function<Report(const Config&, bool)>& run,
                               const std::string& expected, uint64_t seeds = 20) {
  std::string findings, said;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Config config{.schedule_seed = seed};
    const Report intact = run(config, false);
    CAPTURE(texts(intact));
    CHECK(kinds(intact) == "");
    const Report wrong = run(config, true);
    CAPTURE(texts(wrong));
    CHECK(kinds(wrong) == expected);
    std::string places;
    for (const Hazard& hazard : wrong.hazards) {
      CHECK(hazard.count > 0);
      CHECK(hazard.where.line > 0);
      CHECK(hazard.text.find(hazard_name(hazard.kind)) != std::string::npos);
      places += std::string(hazard_name(hazard.kind)) + std::to_string(hazard.where.line) + " ";
    }
    if (seed == 0) {
      findings = places;
      said = texts(wrong);
    }
    CHECK(places == findings);
  }
  return said;
}

}  // namespace fa::simt

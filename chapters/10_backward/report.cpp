#include "report.hpp"

#include <nlohmann/json.hpp>

#include "common/text.hpp"

namespace fa::ch10 {
namespace {

std::string range(Range positions) {
  if (positions.size() == 0) return "";
  return positions.size() == 1
             ? text("%lld", (long long)positions.begin)
             : text("%lld-%lld", (long long)positions.begin, (long long)positions.end - 1);
}

// Returns the names of the tensors for which `which` holds.
template <class Which>
std::string names(const Which& which) {
  std::string list;
  for (size_t i = 0; i < kTensors; ++i) {
    if (which(i)) list += (list.empty() ? "" : " ") + std::string(kTensorNames[i]);
  }
  return list;
}

nlohmann::json named(const Bytes& bytes) {
  nlohmann::json object = nlohmann::json::object();
  for (size_t i = 0; i < kTensors; ++i) {
    if (bytes[i] != 0) object[kTensorNames[i]] = bytes[i];
  }
  return object;
}

}  // namespace

std::string profile_table(const Report& report) {
  const Traffic& traffic = report.traffic;
  std::string table = text("  moved      %lld bytes read, %lld written\n",
                           (long long)total(traffic.read), (long long)total(traffic.written));
  for (size_t i = 0; i < kTensors; ++i) {
    if (traffic.read[i] == 0 && traffic.written[i] == 0) continue;
    table += text("             %-4s %12lld %12lld\n", kTensorNames[i], (long long)traffic.read[i],
                  (long long)traffic.written[i]);
  }
  return table +
         text("  tiles      %lld computed, %lld hidden and skipped, %lld products each\n",
              (long long)traffic.tiles, (long long)traffic.tiles_skipped,
              (long long)(traffic.tiles == 0 ? 0 : traffic.products / traffic.tiles)) +
         text("  memory     %lld bytes besides inputs and outputs\n", (long long)report.peak_bytes);
}

std::string trace_table(const Traffic& traffic) {
  std::string table = text("  %6s  %-9s%5s %9s %9s  %-28s%-14s%s\n", "step", "", "head", "queries",
                           "keys", "loads", "adds to", "stores");
  int64_t number = 0;
  for (const Step& step : traffic.steps) {
    const auto loads = [&](size_t i) { return step.loads[i] != 0; };
    const auto stores = [&](size_t i) { return step.stores[i] != 0; };
    const bool adds = std::string_view(step.phase) != "finish";
    table += text("  %6lld  %-9s%5lld %9s %9s  %-28s%-14s%s\n", (long long)++number, step.phase,
                  (long long)step.head, range(step.queries).c_str(), range(step.keys).c_str(),
                  names([&](size_t i) { return loads(i) && !(adds && stores(i)); }).c_str(),
                  names([&](size_t i) { return adds && loads(i) && stores(i); }).c_str(),
                  names([&](size_t i) { return stores(i) && !(adds && loads(i)); }).c_str());
  }
  return table;
}

nlohmann::json as_json(const Report& report) {
  const Traffic& traffic = report.traffic;
  nlohmann::json json = {{"bytes_read", total(traffic.read)},
                         {"bytes_written", total(traffic.written)},
                         {"read", named(traffic.read)},
                         {"written", named(traffic.written)},
                         {"tiles", traffic.tiles},
                         {"tiles_skipped", traffic.tiles_skipped},
                         {"products", traffic.tiles == 0 ? 0 : traffic.products / traffic.tiles},
                         {"peak_bytes", report.peak_bytes}};
  for (const Step& step : traffic.steps) {
    json["steps"].push_back({{"phase", step.phase},
                             {"head", step.head},
                             {"queries", {step.queries.begin, step.queries.end}},
                             {"keys", {step.keys.begin, step.keys.end}},
                             {"loads", named(step.loads)},
                             {"stores", named(step.stores)}});
  }
  return json;
}

}  // namespace fa::ch10

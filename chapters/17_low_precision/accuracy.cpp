#include "accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/check.hpp"
#include "common/cli.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "common/problem.hpp"

namespace ch17 {
namespace {

constexpr int64_t kLongKeys = 65536, kMostQueries = 4096, kSample = 64;

enum Stream : uint64_t { OUTLIER = 3, CHOSEN = 6, MEAN = 9 };  // three of each, for Q, K, V

// Returns N(0,1) values, while random_values has mean 0.5.
std::vector<float> normal(int64_t rows, int64_t columns, uint64_t seed, uint64_t stream) {
  // random_values uses three streams per seed, and these are up to twelve.
  auto values = fa::random_values(std::vector{rows, columns}, fa::Dtype::f32, 4 * seed, stream);
  for (float& x : values) x -= 0.5f;
  return values;
}

void add_outliers(std::vector<float>& x, int64_t dim, float deviation, uint64_t seed,
                  uint64_t matrix) {
  constexpr float kOneInThousand = 3.0902323f;  // a normal number exceeds it once in a thousand
                                                // times
  const int64_t rows = std::ssize(x) / dim;
  const auto outlier = normal(rows, dim, seed, OUTLIER + matrix);
  const auto chosen = normal(rows, dim, seed, CHOSEN + matrix);
  for (size_t i = 0; i < x.size(); ++i)
    if (chosen[i] > kOneInThousand) x[i] += deviation * outlier[i];
}

struct Row {
  const Scheme* scheme;
  std::vector<std::vector<Errors>> errors;  // [input][seed]
};

// Returns the measure for all seeds, ascending, or only NaN if one is NaN.
std::vector<double> ascending(const std::vector<Errors>& errors, double Errors::*measure) {
  std::vector<double> values;
  for (const Errors& one : errors) {
    values.push_back(one.*measure);
    if (std::isnan(values.back())) return {values.back()};
  }
  std::sort(values.begin(), values.end());
  return values;
}

double median(const std::vector<Errors>& errors, double Errors::*measure) {
  const auto values = ascending(errors, measure);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::string number(double value, const char* format) {
  if (std::isnan(value)) return "nan";
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string right(const std::string& text, size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

std::string table(const std::string& title, const std::vector<Input>& inputs,
                  const std::vector<Row>& rows, double Errors::*measure, const char* format,
                  bool with_cited) {
  constexpr size_t kWidth = 11;
  std::string text = title + std::string(28 - std::min<size_t>(title.size(), 27), ' ');
  for (const Input& input : inputs) text += right(input.name, kWidth);
  text += with_cited ? right("FA3 paper", kWidth) : "";
  for (const Row& row : rows) {
    text += "\n" + row.scheme->name + std::string(28 - row.scheme->name.size(), ' ');
    for (const auto& errors : row.errors)
      text += right(number(median(errors, measure), format), kWidth);
    if (with_cited && row.scheme->cited != 0)
      text += right(number(row.scheme->cited, format), kWidth);
  }
  return text + "\n";
}

nlohmann::json report(const std::vector<Input>& inputs, const std::vector<Row>& rows, int64_t seed,
                      int64_t seeds) {
  nlohmann::json json{{"chapter", "17_low_precision"}, {"seed", seed}, {"seeds", seeds}};
  for (const Input& input : inputs) {
    json["inputs"].push_back({{"name", input.name},
                              {"queries", input.head.queries},
                              {"keys", input.head.keys},
                              {"dim", input.head.dim},
                              {"sample", input.rows.size()}});
  }
  for (const Row& row : rows) {
    nlohmann::json one{{"name", row.scheme->name}};
    if (row.scheme->cited != 0) one["cited_rmse"] = row.scheme->cited;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto of = [&](double Errors::*measure) {
        return fa::json_number(median(row.errors[i], measure));
      };
      const auto rmse = ascending(row.errors[i], &Errors::rmse);
      one["errors"][inputs[i].name] = {
          {"rmse", of(&Errors::rmse)},
          {"rmse_range", {fa::json_number(rmse.front()), fa::json_number(rmse.back())}},
          {"cosine", of(&Errors::cosine)},
          {"relative_l1", of(&Errors::relative_l1)}};
    }
    json["schemes"].push_back(one);
  }
  return json;
}

Input input_of_files(const std::string& q, const std::string& k, const std::string& v,
                     uint64_t seed) {
  bool two_dimensional = false;
  fa::Problem problem = fa::load_problem(q, k, v, fa::Dtype::f32, 1, &two_dimensional);
  if (problem.shape.batch * problem.shape.heads != 1) {
    throw fa::InputError("accuracy: " + q + " has several heads; accepted: one");
  }
  const fa::Shape& s = problem.shape;
  return {"files",
          {s.q, s.kv, s.dim, problem.q, problem.k, problem.v},
          fa::spread_sample(s.q, kSample, seed)};
}

std::vector<std::string> names_of_schemes() {
  std::vector<std::string> names{"all"};
  for (const Scheme& scheme : schemes()) names.push_back(scheme.name);
  return names;
}

}  // namespace

Errors errors_of(std::span<const float> got, std::span<const double> expected) {
  if (got.size() != expected.size() || got.empty()) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan, nan};
  }
  double squares = 0, absolute = 0, total = 0, dot = 0, got_2 = 0, expected_2 = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = got[i] - expected[i];
    squares += difference * difference;
    absolute += std::abs(difference);
    total += std::abs(expected[i]);
    dot += got[i] * expected[i];
    got_2 += double{got[i]} * got[i];
    expected_2 += expected[i] * expected[i];
  }
  return {std::sqrt(squares / static_cast<double>(got.size())), dot / std::sqrt(got_2 * expected_2),
          absolute / total};
}

Input make_input(const std::string& name, int64_t keys, int64_t dim, int64_t sample,
                 uint64_t seed) {
  Input input{name, {std::min(keys, kMostQueries), keys, dim, {}, {}, {}}, {}};
  Head& head = input.head;
  std::vector<float>* const matrices[] = {&head.q, &head.k, &head.v};
  for (uint64_t i = 0; i < 3; ++i) {
    auto& x = *matrices[i];
    x = normal(i == 0 ? head.queries : keys, dim, seed, i);
    if (name == "outliers") add_outliers(x, dim, 10, seed, i);
    if (name == "outliers-100") add_outliers(x, dim, 100, seed, i);
  }
  if (name == "long-v")
    for (float& x : head.v) x += 0.5f;
  if (name == "sink") {  // the score is 8 · x / √dim = 10
    const float x = 1.25f * std::sqrt(static_cast<float>(dim));
    for (int64_t i = 0; i < head.queries; ++i) head.q[i * dim] = 8;
    for (int64_t d = 0; d < dim; ++d) head.k[d] = head.v[d] = 0;
    head.k[0] = x;
  }
  if (name == "k-mean") {
    const auto mean = normal(1, dim, seed, MEAN);
    for (int64_t i = 0; i < keys * dim; ++i) head.k[i] += 8 * mean[i % dim];
  }
  for (auto* const matrix : matrices)
    for (float& x : *matrix) x = fa::round_to(fa::Dtype::bf16, x);
  input.rows = fa::spread_sample(head.queries, sample, seed);
  return input;
}

int run_accuracy(int argc, char** argv) {
  fa::Cli cli(
      "ch17_low_precision accuracy",
      "Errors of attention in 8 and 4 bits: schemes by inputs, simulated, against float64.");
  std::string input = "all", scheme = "all", json, q, k, v;
  int64_t seed = 1, seeds = 1, keys = 4096, dim = 128;
  std::vector<std::string> input_names(std::begin(kInputs), std::end(kInputs));
  input_names.insert(input_names.begin(), "all");
  cli.choice("--input", input, input_names, "one input");
  cli.choice("--scheme", scheme, names_of_schemes(), "one scheme");
  cli.integer("--keys", keys, 1, kLongKeys, "keys of all inputs but the long ones");
  cli.integer("--dim", dim, 1, 1024, "size of a head");
  cli.integer("--seed", seed, 0, 1'000'000'000, "seed of the random inputs and signs");
  cli.integer("--seeds", seeds, 1, 1000, "number of seeds, starting with --seed: prints medians");
  cli.input_file("--q", q, "your own input, one head, instead: [L, D], .npy float32 or float16");
  cli.input_file("--k", k, "");
  cli.input_file("--v", v, "");
  cli.output_file("--json", json, "write the numbers to this file");
  cli.parse(argc, argv);
  const bool files = !q.empty() || !k.empty() || !v.empty();
  if (files && (q.empty() || k.empty() || v.empty()))
    throw fa::InputError("--q, --k and --v: give all three, or none");
  if (files && input != "all") throw fa::InputError("--input: not with --q, --k and --v");

  std::vector<Row> rows;
  for (const Scheme& one : schemes())
    if (scheme == "all" || scheme == one.name) rows.push_back({&one, {}});
  std::vector<Input> inputs;
  bool finite = true;
  const auto measure = [&](Input one, uint64_t with, bool first) {
    const auto expected = exact_attention(one.head, one.rows);
    for (Row& row : rows) {
      if (first) row.errors.emplace_back();
      const auto got = low_precision_attention(*row.scheme, one.head, one.rows, with);
      row.errors.back().push_back(errors_of(got, expected));
      finite = finite && std::isfinite(row.errors.back().back().rmse);
    }
    one.head.q = one.head.k = one.head.v = {};
    if (first) inputs.push_back(std::move(one));
  };
  for (const std::string name : kInputs) {
    if (files || (input == "all" ? name == "outliers-100" : input != name)) continue;
    const bool is_long = name.starts_with("long");
    for (int64_t n = 0; n < seeds; ++n) {
      const auto with = static_cast<uint64_t>(seed + n);
      measure(
          make_input(name, is_long ? kLongKeys : keys, dim, is_long ? kSample / 4 : kSample, with),
          with, n == 0);
    }
  }
  for (int64_t n = 0; files && n < seeds; ++n) {
    const auto with = static_cast<uint64_t>(seed + n);
    measure(input_of_files(q, k, v, with), with, n == 0);
  }
  for (const Input& one : inputs) {
    std::cout << one.name << ": " << one.rows.size() << " of " << one.head.queries << " queries, "
              << one.head.keys << " keys, D = " << one.head.dim << "\n";
  }
  if (seeds > 1) std::cout << "medians of " << seeds << " seeds\n";
  const bool cited = inputs.size() > 1 || inputs[0].name == "outliers";
  std::cout << "\n" << table("RMSE", inputs, rows, &Errors::rmse, "%.2e", cited);
  std::cout << "\n" << table("cosine similarity", inputs, rows, &Errors::cosine, "%.7f", false);
  std::cout << "\n" << table("relative L1", inputs, rows, &Errors::relative_l1, "%.5f", false);
  if (!json.empty()) fa::write_json(json, report(inputs, rows, seed, seeds));
  return finite ? fa::kAgreed : fa::kDisagreed;
}

}  // namespace ch17

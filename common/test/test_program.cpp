// Runs the steps of a program with a small chapter that copies float64 results.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/error.hpp"
#include "common/file.hpp"
#include "common/npy.hpp"
#include "common/program.hpp"
#include "common/reference.hpp"

using namespace fa;

namespace {

const Break BREAKS[] = {{"nan", 1},     {"wrong", 2},      {"hazard", 4},
                        {"counted", 8}, {"unordered", 16}, {"hidden", 32}};
constexpr BreakDemo DEMO_LIST[] = {
    {"nan", "writes NaN", "--shape 1,1,2,2,2", "", false},
    {"wrong", "adds one", "--shape 1,1,2,3,2 --causal", "", false},
    {"hazard", "reports one", "--shape 1,1,2,2,2", "", false},
    {"counted", "counts one more", "--shape 1,1,2,2,2", "count", false},
    {"unordered", "depends on the schedule", "--shape 1,1,2,2,2 --device emulator", "", true},
    {"hidden", "is wrong from 4 keys on", "--shape 1,1,2,4,2", "", false}};
constexpr BreakDemos DEMOS{"ch99_test", DEMO_LIST, "", "--own"};

Program make_program() {
  return {.name = "ch99_test",
          .about = "float64 answers",
          .default_shape = {1, 1, 3, 4, 2},
          .breaks = {std::begin(BREAKS), std::end(BREAKS)},
          .dtypes = {Dtype::f32, Dtype::f16, Dtype::bf16}};
}

// Copies float64 results, which a break changes.
Run copy(Tensors& tensors, const Arguments& args) {
  const Shape& shape = tensors.shape;
  std::vector<float>& o = tensors.o;
  std::vector<double> row(shape.dim);
  for (int64_t i = 0; i < shape.rows(); ++i) {
    const RowFacts facts = reference_row(tensors, i / shape.q, i % shape.q, row);
    if (!tensors.lse.empty()) tensors.lse[i] = static_cast<float>(facts.lse);
    for (int64_t d = 0; d < shape.dim; ++d) {
      o[i * shape.dim + d] = round_to(tensors.dtype, static_cast<float>(row[d]));
    }
  }
  const uint32_t breaks = args.break_bits;
  if (breaks & 1) o[0] = std::numeric_limits<float>::quiet_NaN();
  if (breaks & 2) o[0] += 1;
  if ((breaks & 32) && shape.kv >= 4) o[0] += 1;
  if ((breaks & 16) && args.schedule_seed == 2) o[0] = std::nextafter(o[0], 9.0f);
  Run run;
  run.counters["count"] = breaks & 8 ? 6 : 5;
  run.time_ms = 1;
  run.hazardous = breaks & 4;
  if (run.hazardous) run.hazards = shared_json({{{"kind", "race"}}});
  return run;
}

struct Result {
  int code;
  std::string out, error;
};

Result run(std::vector<std::string> arguments, const Program& program = make_program(),
           const std::function<void(Cli&)>& declare = {}) {
  arguments.insert(arguments.begin(), program.name);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::ostringstream out, error;
  std::streambuf* const old_out = std::cout.rdbuf(out.rdbuf());
  std::streambuf* const old_error = std::cerr.rdbuf(error.rdbuf());
  const int code =
      breakable_main(static_cast<int>(arguments.size()), argv.data(), DEMOS, [&](Invocation& call) {
        const Arguments args = parse(call, program, declare);
        Tensors tensors = make_tensors(args);
        const Run result = copy(tensors, args);
        return report(args, tensors, result, check_forward(tensors, args.seed));
      });
  std::cout.rdbuf(old_out);
  std::cerr.rdbuf(old_error);
  return {code, out.str(), error.str()};
}

const std::string kDirectory = FA_BINARY_DIR "/test_program_files/";

std::string file(const std::string& name) { return kDirectory + name; }

// Checks for exit status 2, an empty stdout, and one line on stderr that contains `part`.
void check_refused(const std::vector<std::string>& arguments, const std::string& part) {
  const Result result = run(arguments);
  CAPTURE(arguments);
  CAPTURE(result.error);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK(result.error.rfind("error: ", 0) == 0);
  CHECK(std::count(result.error.begin(), result.error.end(), '\n') == 1);
  CHECK(result.error.find(part) != std::string::npos);
}

void write(const std::string& name, std::vector<int64_t> shape, float value = 1) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  write_npy(file(name), std::vector<float>(count, value), shape);
}

}  // namespace

TEST_CASE("0 when right, 1 when wrong, not finite or hazardous") {
  CHECK(run({}).code == 0);
  CHECK(run({"--shape", "2,3,7,5,4", "--causal", "--seed", "9"}).code == 0);
  CHECK(run({"--break", "nan"}).code == 1);
  CHECK(run({"--break", "wrong"}).code == 1);
  CHECK(run({"--break", "hazard"}).code == 1);
  CHECK(run({"--break", "wrong", "--break", "nan"}).code == 1);
  CHECK(run({"--list-breaks"}).out.find("wrong      adds one\n") != std::string::npos);
}

TEST_CASE("a break alone runs its own input and is compared with the intact program") {
  Program program = make_program();
  std::string own = "0";
  const auto declare = [&](Cli& cli) { cli.text("--own", own, "neither tensors nor masks"); };
  const auto ends_with = [&](std::vector<std::string> arguments, int code, const std::string& first,
                             const std::string& last) {
    const Result result = run(std::move(arguments), program, declare);
    CAPTURE(result.out);
    CAPTURE(result.error);
    CHECK(result.code == code);
    CHECK(result.out.starts_with(first));
    CHECK(result.out.ends_with(last));
  };
  ends_with({"--break", "nan"}, 1, "input: --shape 1,1,2,2,2, which shows nan\n",
            "broken: 1 of 6 values are not finite\n");
  ends_with({"--break=wrong"}, 1, "input: --shape 1,1,2,3,2 --causal, which shows wrong\n",
            "broken: 1 of 6 values are wrong, largest error 1\n");
  ends_with({"--break", "hazard"}, 1, "input: ", "; 1 hazard: race\n");
  ends_with({"--break", "counted"}, 1, "input: ", "; count 6\n");
  // Options that are not input are kept, and several breaks use the input of the first one.
  ends_with({"--own", "1", "--break", "wrong", "--dtype", "bf16"}, 1, "input: --shape 1,1,2,3,2",
            "");
  CHECK(own == "1");
  ends_with({"--break", "wrong", "--break", "nan"}, 1, "input: --shape 1,1,2,3,2 --causal, ",
            "not finite\n");
  // With an input from the user it prints the verdict, and the command if the break has no effect
  // there.
  ends_with({"--break", "wrong", "--shape", "1,1,2,2,2"}, 1, "ch99_test: ", "not finite\n");
  ends_with({"--break", "hidden", "--shape", "1,1,2,2,2"}, 0, "ch99_test: ",
            "this input does not show hidden; this one does:\n"
            "  ch99_test --shape 1,1,2,4,2 --break hidden\n");
  ends_with({"--break", "counted", "--seed", "4"}, 1, "ch99_test: ", "count 6\n");
  program.has_device = true;
  ends_with({"--break", "unordered"}, 1, "input: --shape 1,1,2,2,2 --device emulator, which shows ",
            ";\n                     1 of 6 values differ under --schedule-seed 1 and 2\n");
  ends_with({"--break", "unordered", "--device", "gpu"}, 2, "", "");
  ends_with({"--break", "unordered", "--seed", "4", "--device", "gpu"}, 0, "ch99_test: ",
            "this one does:\n  ch99_test --shape 1,1,2,2,2 --break unordered --device emulator\n");
  check_refused({"--break", "nothing", "--break", "nan"}, "accepted: nan, wrong, hazard");
}

TEST_CASE("a ramp's scores rise with the key, and V can be scaled") {
  Problem problem = random_problem({1, 2, 4, 8, 4}, Dtype::f32, 0);
  make_ramp(problem, 0.5);
  for (int64_t query = 0; query < 4; ++query) {
    for (int64_t key = 0; key < 8; ++key) {
      double score = 0;
      for (int64_t d = 0; d < 4; ++d) {
        score += problem.q[(4 + query) * 4 + d] * problem.k[(8 + key) * 4 + d];
      }
      CHECK(score * problem.scale == doctest::Approx(0.5 * key * (query + 1) / 4));
    }
  }
  CHECK(*std::max_element(problem.v.begin(), problem.v.end()) == 1);
  scale_values(problem, 1e30);
  CHECK(*std::max_element(problem.v.begin(), problem.v.end()) == 1e30f);
  CHECK_THROWS_WITH_AS(scale_values(problem, 1e30), "--v-scale makes V too large for f32",
                       InputError);
  CHECK_THROWS_WITH_AS(make_ramp(problem, 1e40), "--ramp makes K too large for f32", InputError);
  check_refused({"--q", "q", "--k", "k", "--v", "v", "--ramp", "1"}, "--ramp makes the input");
}

TEST_CASE("JSON holds what other tools rely on; what is not finite is null") {
  std::filesystem::create_directories(kDirectory);
  const std::string path = file("report.json");
  CHECK(run({"--shape", "1,2,3,4,5", "--causal", "--break", "nan", "--json", path}).code == 1);
  const auto json = nlohmann::json::parse(read_file(path));
  CHECK(json["chapter"] == "ch99_test");
  CHECK(json["device"] == "cpu");
  CHECK(json["shape"] ==
        nlohmann::json({{"batch", 1}, {"heads", 2}, {"q", 3}, {"kv", 4}, {"dim", 5}}));
  CHECK(json["causal"] == true);
  CHECK(json["breaks"] == nlohmann::json({"nan"}));
  CHECK(json["check"]["passed"] == false);
  CHECK(json["check"]["max_abs_error"].is_null());
  CHECK(json["check"]["relative_error"].is_null());
  CHECK(json["check"]["nonfinite"] == 1);
  CHECK(json["check"]["mismatches"] == 1);
  CHECK(json["check"]["first_bad"]["tensor"] == "O");
  CHECK(json["check"]["first_bad"]["index"].size() == 4);
  CHECK(json["check"]["first_bad"]["got"].is_null());  // NaN
  CHECK(json["time_ms"] == 1.0);
  CHECK(json["profile"].is_object());
  CHECK(json["hazards"].is_array());
}

TEST_CASE("files in, files out, two or four dimensions") {
  std::filesystem::create_directories(kDirectory);
  write("q2.npy", {3, 4}, 0.5f);
  write("k2.npy", {5, 4});
  CHECK(run({"--q", file("q2.npy"), "--k", file("k2.npy"), "--v", file("k2.npy"), "--out",
             file("o.npy"), "--lse", file("lse.npy")})
            .code == 0);
  CHECK(read_npy(file("o.npy")).shape == std::vector<int64_t>{3, 4});
  CHECK(read_npy(file("lse.npy")).shape == std::vector<int64_t>{3});
  CHECK(read_npy(file("lse.npy")).floats()[0] == doctest::Approx(1 + std::log(5.0)));
  CHECK(run({"--shape", "2,1,3,4,5", "--out", file("o.npy"), "--lse", file("lse.npy")}).code == 0);
  CHECK(read_npy(file("o.npy")).shape == std::vector<int64_t>{2, 1, 3, 5});
  CHECK(read_npy(file("lse.npy")).shape == std::vector<int64_t>{2, 1, 3});
  CHECK(run({"--out", "/dev/null"}).code == 0);
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("bad input is one sentence and exit 2") {
  std::filesystem::create_directories(kDirectory);
  check_refused({"--shape", "1,8,100"}, "--shape 1,8,100: expected five numbers B,H,Lq,Lkv,D");
  check_refused({"--shape", "1,8,0,4,4"}, "whole number from 1");
  check_refused({"--shape", "1,8,-3,4,4"}, "whole number from 1");
  check_refused({"--shape", "1,8,4,4,4x"}, "whole number from 1");
  check_refused({"--shape", "1,8,4,4,"}, "whole number from 1");
  check_refused({"--shape", "1,8,4,4,99999999999999999999"}, "whole number from 1");
  check_refused({"--shape", "1048576,1048576,4,4,4"}, "more than 2^40 elements");
  check_refused({"--shape", "1,1,1,1000000000,1000"}, "this machine has");
  check_refused({"--seed", "-1"}, "--seed");
  check_refused({"--seed", "1.5"}, "--seed");
  check_refused({"--scale", "nan"}, "finite number");
  check_refused({"--scale", "1e999"}, "finite number");
  check_refused({"--scale", "1e308"}, "could pass 3.4e38");
  check_refused({"--input-scale", "1e37", "--scale", "1e3"}, "could pass 3.4e38");
  check_refused({"--input-scale", "1e37", "--scale", "1e-30", "--shape", "1,1,3,4,64"},
                "Q K.T or scale * Q K.T could pass 3.4e38");
  CHECK(run({"--input-scale", "1e36", "--scale", "1e-36"}).code == 0);
  check_refused({"--input-scale", "1e5", "--dtype", "f16"}, "too large for f16");
  check_refused({"--break", "everything"}, "accepted: nan, wrong, hazard");
  check_refused({"--dtype", "f8"}, "accepted: f32, f16, bf16");
  check_refused({"--frobnicate"}, "--frobnicate");
  check_refused({"--seed"}, "--seed");
  check_refused({"--q", file("none.npy")}, "go together");
  check_refused({"--q", file("none.npy"), "--k", "x", "--v", "y"}, "No such file");
  check_refused({"--out", file("no/such/directory.npy")}, "No such file");
  check_refused({"--json", kDirectory}, "it is a directory");

  write("q.npy", {1, 2, 3, 4});
  write("k.npy", {1, 2, 5, 4});
  write("k_dim.npy", {1, 2, 5, 8});
  write("k_heads.npy", {1, 3, 5, 4});
  write("three.npy", {2, 5, 4});
  write("empty.npy", {1, 2, 0, 4});
  write("nan.npy", {1, 2, 5, 4}, std::numeric_limits<float>::quiet_NaN());
  write("big.npy", {1, 2, 5, 4}, 70000);
  const auto with = [&](const char* q, const char* k, const char* v) {
    return std::vector<std::string>{"--q", file(q), "--k", file(k), "--v", file(v)};
  };
  CHECK(run(with("q.npy", "k.npy", "k.npy")).code == 0);
  check_refused(with("q.npy", "k_dim.npy", "k_dim.npy"), "batch and dim must be equal");
  check_refused(with("q.npy", "k_heads.npy", "k_heads.npy"), "must divide those of Q");
  check_refused(with("q.npy", "k.npy", "k_dim.npy"), "K is [1, 2, 5, 4] and V is [1, 2, 5, 8]");
  check_refused(with("q.npy", "three.npy", "three.npy"), "has 3 dimensions");
  check_refused(with("q.npy", "empty.npy", "empty.npy"), "dimension of size 0");
  check_refused(with("q.npy", "k.npy", "nan.npy"), "40 of 40 values are NaN");
  check_refused(with("q.npy", "k.npy", "nan.npy"), "the first at [0, 0, 0, 0]");
  auto big = with("q.npy", "k.npy", "big.npy");
  CHECK(run(big).code == 0);
  big.insert(big.end(), {"--dtype", "f16"});
  check_refused(big, "too large for f16");
  auto twice = with("q.npy", "k.npy", "k.npy");
  twice.insert(twice.end(), {"--shape", "1,1,1,1,1"});
  check_refused(twice, "not both");
}

TEST_CASE("a chapter without causal names the one that has it; nothing is written on bad input") {
  Program program = make_program();
  program.features = 0;
  const Result result = run({"--causal"}, program);
  CHECK(result.code == 2);
  CHECK(result.error.find("chapter 09") != std::string::npos);
  std::filesystem::create_directories(kDirectory);
  const std::string path = file("never.json");
  std::filesystem::remove(path);
  CHECK(run({"--json", path, "--shape", "x"}).code == 2);
  CHECK_FALSE(std::filesystem::exists(path));
}

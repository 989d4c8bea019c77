#include "exercises/support/cuda.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "exercises/support/todo.hpp"

namespace exercise {

namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// Runs emucuda and returns its exit status and what it and the program printed.
int emucuda(const std::vector<std::string>& words, std::string& output) {
  std::string command = quoted(EXERCISE_EMUCUDA);
  for (const std::string& word : words) command += " " + quoted(word);
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("emucuda does not start");
  char buffer[4096];
  output.clear();
  while (const size_t bytes = std::fread(buffer, 1, sizeof buffer, pipe))
    output.append(buffer, bytes);
  return pclose(pipe);
}

// A directory for the program and its reports, until this process ends.
const fs::path& scratch() {
  struct Directory {
    fs::path path = fs::temp_directory_path() / ("exercise_cuda_" + std::to_string(getpid()));
    Directory() { fs::create_directories(path); }
    ~Directory() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Directory directory;
  return directory.path;
}

std::string answer_path(const char* copy, const char* stub) {
  if (const char* named = std::getenv("EXERCISE_ANSWER")) return named;
  return fs::exists(copy) ? copy : stub;
}

// The line "#error TODO(C.3): …" of a stub that is still to be written.
void stop_at_todo(const std::string& path) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("#error TODO(");
    if (at != std::string::npos) throw Todo(line.substr(at + 7));
  }
}

struct Program {
  std::string path, refused;  // the compiler's words, if it does not compile
};

const Program& program(const char* main, const char* copy, const char* stub) {
  static std::optional<Program> made;
  if (!made) {
    const fs::path path = fs::absolute(answer_path(copy, stub));
    stop_at_todo(path);
    made = {scratch() / "program", ""};
    std::string said;
    if (emucuda({main, "-I", path.parent_path(), "-o", made->path}, said) != 0)
      made->refused = "does not compile:\n" + said;
  }
  if (!made->refused.empty()) throw std::runtime_error(made->refused);
  return *made;
}

}  // namespace

Numbers CudaRun::numbers(const std::string& name) const {
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream words(line.substr(name.size() + 1));
    Numbers all;
    for (std::string word; words >> word;) all.push_back(std::strtod(word.c_str(), nullptr));
    return all;
  }
  return {};
}

int64_t CudaRun::counter(const std::string& name) const {
  for (const auto& [key, value] : counters)
    if (key == name) return value;
  throw std::logic_error("no counter " + name);
}

bool CudaRun::has(const std::string& kind) const {
  return std::any_of(hazards.begin(), hazards.end(),
                     [&](const CudaHazard& hazard) { return hazard.kind == kind; });
}

bool CudaRun::only(const std::vector<std::string>& kinds) const {
  return !hazards.empty() &&
         std::all_of(hazards.begin(), hazards.end(), [&](const CudaHazard& hazard) {
           return std::find(kinds.begin(), kinds.end(), hazard.kind) != kinds.end();
         });
}

bool CudaRun::within_warps() const {
  return std::all_of(hazards.begin(), hazards.end(),
                     [](const CudaHazard& hazard) { return hazard.within_warp; });
}

bool check_no_hazards(const CudaRun& run, const std::vector<Suspect>& suspects, int line,
                      const char* file) {
  const bool good = run.hazards.empty();
  const size_t more = good ? 0 : run.hazards.size() - 1;
  check(good,
        good ? ""
             : run.hazards[0].message +
                   (more > 0 ? "\n(and " + std::to_string(more) + " more)" : std::string()),
        suspects, line, file);
  return good;
}

CudaRun run_cuda(const char* main, const char* copy, const char* stub,
                 const std::vector<std::string>& arguments) {
  const fs::path report = scratch() / "report.json";
  std::error_code ignored;
  fs::remove(report, ignored);
  std::vector<std::string> words = {program(main, copy, stub).path, "--profile", "--json", report,
                                    "--"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  CudaRun run;
  emucuda(words, run.printed);
  const auto all = nlohmann::ordered_json::parse(read_file(report), nullptr, false);
  if (all.is_discarded()) throw std::runtime_error("no report; emucuda said:\n" + run.printed);
  for (const auto& hazard : all["hazards"]) {
    const auto& threads = hazard["threads"];
    const bool within =
        threads.size() == 2 && threads[0].get<int>() / 32 == threads[1].get<int>() / 32;
    run.hazards.push_back({hazard["kind"], hazard["message"], within});
  }
  for (const auto& kernel : all["kernels"]) {
    for (const auto& [key, value] : kernel["profile"].items()) {
      const auto found =
          std::find_if(run.counters.begin(), run.counters.end(),
                       [&key = key](const auto& counter) { return counter.first == key; });
      if (found == run.counters.end()) {
        run.counters.emplace_back(key, value.get<int64_t>());
      } else {
        found->second += value.get<int64_t>();
      }
    }
  }
  return run;
}

}  // namespace exercise

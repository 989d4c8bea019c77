// emucuda FILE.cu... [options] [-- ARGUMENTS]: compiles a CUDA file, runs it on the emulator,
// reports.
//
// clang compiles the file twice, for the device and for the host. emucuda_retarget turns the
// device's code into calls of the emulator. The program is linked with libemucuda.so and runs as a
// separate process, which writes its report as JSON. Then emucuda prints the report. usage() has
// the options.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/words.hpp"

namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

const char* const kUsage =
    "usage: emucuda FILE.cu... [options] [-- ARGUMENTS]\n"
    "\n"
    "Compiles CUDA files, runs their main on the emulator, and reports every race and\n"
    "bad access.\n"
    "\n"
    "  -I DIR  -D NAME[=VALUE]   as for a compiler; -O N for the host's code\n"
    "  -std=c++20  -fmad=false   as for nvcc\n"
    "  --profile                 counters of each kernel, and its costliest lines\n"
    "  --json FILE               the report as JSON\n"
    "  --sarif FILE              the hazards as SARIF 2.1.0\n"
    "  --tool NAME               only the hazards of memcheck, racecheck, initcheck\n"
    "                            or synccheck\n"
    "  --schedule-seed N         another order of warps and lanes (default 0)\n"
    "  --once                    skips a repeated launch, unless the host has copied\n"
    "                            or set its data\n"
    "  -o PROGRAM                compiles only; `emucuda PROGRAM` then runs it\n"
    "  --arch sm_NN              the card that __CUDA_ARCH__ names (default sm_80)\n"
    "  --device auto|gpu|emulator   gpu: compiles with nvcc and runs on the card\n"
    "                            (default emulator)\n"
    "\n"
    "Exit status: the program's own if it is not 0; else 1 with a hazard; 2 if a file\n"
    "does not compile or needs what is not supported.\n";

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::vector<std::string> files, compiler, arguments;
  std::string json, sarif, seed, tool, output, arch = "sm_80", device = "auto", optimize = "-O2";
  std::string contract = "fast";  // a * b + c in one rounding, as nvcc does it
  bool profile = false, once = false;
};

// ---- words
// ---------------------------------------------------------------------------------------

struct KindInfo {
  const char* tool;  // tool of compute-sanitizer
  const char* fix;
};
const std::map<std::string, KindInfo> kKinds = {
    {"read_before_wait",
     {"racecheck", "wait for the copy (cp.async.wait_group, or the mbarrier) before the read"}},
    {"read_before_barrier",
     {"racecheck",
      "put a barrier (__syncthreads, or __syncwarp within a warp) between the write and the read"}},
    {"overwrite_while_read",
     {"racecheck", "put a barrier between the read and the write that follows it"}},
    {"write_write",
     {"racecheck",
      "let one thread write, or put a barrier or an atomic operation between the writes"}},
    {"global_race",
     {"racecheck",
      "between threads of a block put a barrier; between blocks use atomic operations, or a flag "
      "with __threadfence, or launch a second kernel"}},
    {"cluster_race",
     {"racecheck",
      "put cluster.sync() between the two, and before a block ends whose memory others use"}},
    {"missing_proxy_fence",
     {"racecheck", "execute fence.proxy.async after the stores and before the copy"}},
    {"registers_in_flight",
     {"racecheck", "execute wgmma.wait_group before the registers are used"}},
    {"uninitialized_read",
     {"initcheck", "write the bytes before the read, with a barrier between two threads"}},
    {"out_of_bounds",
     {"memcheck",
      "compare the index with the size before the access; pass memory from cudaMalloc"}},
    {"misaligned",
     {"memcheck", "align the address to the size of the access, or use a smaller access"}},
    {"division_by_zero",
     {"memcheck", "check the divisor: a GPU does not trap, it continues with a wrong number"}},
    {"bad_descriptor",
     {"memcheck", "build the descriptor from the tile's address, strides and swizzle"}},
    {"assert", {"memcheck", "the program's own assertion failed"}},
    {"trap", {"memcheck", "the kernel stopped itself"}},
    {"stack_overflow",
     {"memcheck", "use smaller local arrays, or shared memory, or a recursion that ends"}},
    {"barrier_divergence",
     {"synccheck",
      "let all threads that the barrier or the mask names reach it, at the same place"}},
    {"inactive_lane",
     {"synccheck",
      "read lanes of the mask that execute the same shuffle; pass the width of the group"}},
    {"deadlock",
     {"synccheck", "make sure that what the thread waits for is done by a thread that can run"}},
    {"wait_wrong_phase", {"synccheck", "flip the parity after each wait"}},
    {"transaction_mismatch", {"synccheck", "expect as many bytes as the copies bring"}},
};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Line `number` of the file, without its indentation; "" if there is none.
std::string source_line(const std::string& place) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return "";
  std::ifstream in(place.substr(0, colon));
  std::string line;
  for (int i = std::atoi(place.c_str() + colon + 1); i > 0 && std::getline(in, line); --i) {
  }
  const size_t first = line.find_first_not_of(" \t");
  return in && first != std::string::npos ? line.substr(first) : "";
}

// A complete file or none.
void write_file(const std::string& path, const std::string& text) {
  const bool regular = !fs::exists(path) || fs::is_regular_file(path);
  const std::string target = regular ? path + ".part" : path;
  std::ofstream out(target, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw UsageError(path + ": cannot be written");
  if (regular) fs::rename(target, path);
}

// ---- processes
// -----------------------------------------------------------------------------------

struct Process {
  pid_t pid = -1;
  std::string output;  // file for its output, or "" for this program's own output
};

Process start(const std::vector<std::string>& command, const std::string& output,
              const std::map<std::string, std::string>& environment = {}) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork: " + std::string(std::strerror(errno)));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with this program
    personality(ADDR_NO_RANDOMIZE);    // the same addresses in each run, if the system allows it
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    if (!output.empty()) {
      const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(file, 1);
      dup2(file, 2);
    }
    execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "error: %s: %s\n", arguments[0], std::strerror(errno));
    _exit(127);
  }
  return {pid, output};
}

// 128 + the signal's number for a process that a signal ended.
int finish(const Process& process) {
  int status = 0;
  while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string program_on_path(const std::vector<std::string>& names) {
  std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  for (const std::string& name : names) {
    for (size_t at = 0; at <= path.size();) {
      const size_t end = std::min(path.find(':', at), path.size());
      std::string candidate = path.substr(at, end - at) + "/" + name;
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
      at = end + 1;
    }
  }
  return "";
}

struct Directory {  // removed at the end
  fs::path path;
  Directory() {
    std::string name = (fs::temp_directory_path() / "emucuda-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + ": cannot be made");
    path = name;
  }
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// ---- compiling
// -----------------------------------------------------------------------------------

// Where the headers, the library and emucuda_retarget are: ../lib/emucuda, as seen from this
// program.
fs::path home() {
  return fs::canonical("/proc/self/exe").parent_path().parent_path() / "lib" / "emucuda";
}

std::vector<std::string> join(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const char* const kAlignas = "-DEMUCUDA_ALIGNAS";  // see include/cuda_runtime.h

// The names in a linker's "undefined reference to `main'".
std::set<std::string> undefined_names(const std::string& messages) {
  const std::string before = "undefined reference to `";
  std::set<std::string> names;
  for (size_t at = messages.find(before); at != std::string::npos; at = messages.find(before, at)) {
    at += before.size();
    names.insert(messages.substr(at, messages.find('\'', at) - at));
  }
  return names;
}

// CUDA's names that the headers do not declare, from clang's messages "f.cu:3:2: error: use of
// undeclared identifier 'cudaArrayCreate'". Returns a sentence for each.
std::string undeclared_names(const std::string& messages) {
  std::string sentences;
  std::istringstream lines(messages);
  for (std::string line; std::getline(lines, line);) {
    const size_t error = line.find(": error: "), quote = line.find('\'', error);
    if (error == std::string::npos || quote == std::string::npos) continue;
    const std::string what = line.substr(error + 9, quote - error - 9),
                      name = line.substr(quote + 1, line.find('\'', quote + 1) - quote - 1);
    if (what != "use of undeclared identifier " && what != "unknown type name " &&
        what != "no template named ")
      continue;
    const size_t word = name.rfind("cuda", 0) == 0 ? 4 : 2;  // cudaMalloc, cuMemAlloc
    if (name.rfind("cu", 0) != 0 || name.size() <= word || std::isupper(name[word]) == 0) continue;
    const std::string sentence = line.substr(0, line.rfind(':', error - 1)) + ": error: " + name +
                                 " is not supported, or is misspelled: no header of emucuda "
                                 "declares it\n";
    if (sentences.find(sentence) == std::string::npos) sentences += sentence;
  }
  return sentences;
}

// A pass of clang over a file, for the device or for the host.
struct Pass {
  std::vector<std::string> command;  // without the options of the command line, headers and file
  fs::path headers;                  // precompiled; "" for none

  std::vector<std::string> with(const std::vector<std::string>& options, bool precompiled) const {
    const std::string header = (home() / "include" / "cuda_runtime.h").string();
    return join(join(command, options),
                precompiled
                    ? std::vector<std::string>{"-Xclang", "-include-pch", "-Xclang", headers}
                    : std::vector<std::string>{"-include", header});
  }
};

// cuda_runtime.h is two thirds of the work on a small file. So clang keeps what it has read, in a
// file for each pass and the options that the header depends on, and the first run makes the file.
// Where it cannot be written, each run reads the header.
void precompile(const std::vector<Pass*>& passes, const fs::path& directory) {
  std::error_code ignored;
  fs::create_directories(home() / "headers", ignored);
  std::vector<std::pair<Pass*, Process>> running;
  const auto made = [](const Pass& pass) {
    return pass.headers.string() + std::to_string(getpid());
  };
  for (Pass* pass : passes) {
    if (fs::exists(pass->headers)) continue;
    running.emplace_back(
        pass, start(join(pass->command, {"-Xclang", "-emit-pch", "-c", "-o", made(*pass),
                                         (home() / "include" / "cuda_runtime.h").string()}),
                    (directory / "headers.txt").string()));
  }
  for (auto& [pass, process] : running) {
    if (finish(process) == 0) fs::rename(made(*pass), pass->headers, ignored);
    fs::remove(made(*pass), ignored);
    if (!fs::exists(pass->headers)) pass->headers.clear();
  }
}

// Whether a macro of the command line may be one that the headers ask for.
bool concern_headers(const std::vector<std::string>& options) {
  return std::any_of(options.begin(), options.end(), [](const std::string& option) {
    return option.rfind("-D_", 0) == 0 || option.rfind("-DEMUCUDA", 0) == 0;
  });
}

// Whether clang does not take the precompiled headers: it is another version, or a header has
// changed.
bool refuses_headers(const std::string& messages) {
  return messages.find("PCH file") != std::string::npos ||
         messages.find("AST file") != std::string::npos ||
         messages.find("precompiled") != std::string::npos;
}

// Returns the program, or "" after the compiler's messages have been printed.
fs::path compile(Options options, const fs::path& directory) {
  const std::string clang = program_on_path({"clang++-19"});
  if (clang.empty())
    throw UsageError("clang++-19 is not installed (Debian, Ubuntu: apt-get install clang-19)");
  const fs::path include = home() / "include";
  const std::string library = (home() / "libemucuda.so").string();
  std::string standard = "-std=c++17";
  for (const std::string& option : options.compiler)
    if (option.rfind("-std=", 0) == 0) standard = option;
  const std::vector<std::string> common = {
      clang,
      "-x",
      "cuda",
      "-nocudainc",
      "-nocudalib",
      "--cuda-path=/nonexistent",
      standard,
      "-isystem",
      include.string(),
      "-Xclang",
      "-target-sdk-version=12.3",
      "-fno-strict-aliasing",
      "-ffp-contract=" + options.contract,
      "-Xclang",
      "-fcuda-allow-variadic-functions",
      "-Xclang",
      "-fno-cxx-modules",  // else C++20 takes __host__ max and __device__ max for one
      "--cuda-gpu-arch=" + options.arch,
      "-w",
      "-Wno-unused-command-line-argument",
      "-Wno-pass-failed"};
  const std::string key = standard.substr(5) + "-" + options.arch + "-" + options.contract + ".pch";
  Pass device{
      join(common, {"--cuda-device-only", "--cuda-feature=+ptx83", "-O2", "-g1",
                    "-fno-finite-loops",  // a loop that never ends stays
                    "-fno-discard-value-names", "-Xclang", "-disable-llvm-passes", "-emit-llvm"}),
      home() / "headers" / ("device-" + key)};
  Pass host{join(common, {"--cuda-host-only", options.optimize, "-fPIC"}),
            home() / "headers" / ("host" + options.optimize + "-" + key)};
  if (concern_headers(options.compiler)) {
    device.headers.clear();
    host.headers.clear();
  } else {
    precompile({&device, &host}, directory);
  }
  std::vector<std::string> link = {clang, "-o", (directory / "program").string()};
  const auto part = [&](size_t i, const char* name) {
    return (directory / (std::to_string(i) + name)).string();
  };
  const auto compile_device = [&](size_t i, bool precompiled) {
    return start(join(device.with(options.compiler, precompiled),
                      {"-c", options.files[i], "-o", part(i, ".device.bc")}),
                 part(i, ".device.txt"));
  };
  const auto compile_host = [&](size_t i, bool precompiled) {
    // The host's code names the kernels and variables of its file by this number.
    std::ofstream(part(i, ".unit")) << i << "\n";
    return start(join(host.with(options.compiler, precompiled),
                      {"-Xclang", "-fcuda-include-gpubinary", "-Xclang", part(i, ".unit"), "-c",
                       options.files[i], "-o", part(i, ".host.o")}),
                 part(i, ".host.txt"));
  };
  // The exit status of a pass, after a second time without precompiled headers if need be.
  const auto finish_pass = [&](const Process& process, const Pass& pass, const auto& again) {
    int status = finish(process);
    if (status != 0 && !pass.headers.empty() && refuses_headers(read_file(process.output))) {
      std::error_code ignored;
      fs::remove(pass.headers, ignored);
      status = finish(again());
    }
    return status;
  };
  struct Passes {
    Process device, host;
  };
  std::vector<Passes> running;
  for (size_t i = 0; i < options.files.size(); ++i)
    running.push_back(
        {compile_device(i, !device.headers.empty()), compile_host(i, !host.headers.empty())});
  bool failed = false;
  std::set<std::string> said;
  const auto say = [&](const std::string& text_file) {
    const std::string text = read_file(text_file);
    if (!text.empty() && said.insert(text).second) std::cerr << text << undeclared_names(text);
  };
  for (size_t i = 0; i < running.size(); ++i) {
    const Passes& passes = running[i];
    int status = finish_pass(passes.device, device, [&] { return compile_device(i, false); });
    const bool again = std::count(options.compiler.begin(), options.compiler.end(), kAlignas) == 0;
    const std::string messages = status != 0 ? read_file(part(i, ".device.txt")) : "";
    if (again && (messages.find("'alignas' attribute cannot") != std::string::npos ||
                  messages.find("an attribute list cannot appear here") != std::string::npos)) {
      for (size_t other = i; other < running.size(); ++other) {
        finish(running[other].host);
        if (other > i) finish(running[other].device);
      }
      options.compiler.push_back(kAlignas);
      return compile(options, directory);
    }
    say(part(i, ".device.txt"));
    if (status == 0) {
      status = finish(start({(home() / "emucuda_retarget").string(), part(i, ".device.bc"),
                             part(i, ".bc"), "--library", library, "--system", include.string(),
                             "--system", "/usr/", "--unit", std::to_string(i)},
                            ""));
      if (status > 128)
        std::cerr << "error: emucuda_retarget stopped with signal " << status - 128 << "\n";
    }
    if (status == 0) {
      status = finish(start(
          // Without warnings, which are about the target only: the code is already compiled.
          {clang, "-x", "ir", "-O1", "-march=native", "-fPIC", "-Xclang", "-disable-llvm-passes",
           "-w", "-c", part(i, ".bc"), "-o", part(i, ".device.o")},
          ""));
    }
    const int on_host = finish_pass(passes.host, host, [&] { return compile_host(i, false); });
    if (on_host != 0 && status == 0) say(part(i, ".host.txt"));
    if (status != 0 || on_host != 0) {
      std::cerr << "error: " << options.files[i] << " does not compile\n";
      failed = true;
    }
    link.push_back(part(i, ".host.o"));
    link.push_back(part(i, ".device.o"));
  }
  if (failed) return "";
  link = join(link, {library, "-Wl,-rpath," + home().string(), "-lm", "-lpthread"});
  const std::string messages = (directory / "link.txt").string();
  if (finish(start(link, messages)) != 0) {
    const std::string text = read_file(messages);
    const std::set<std::string> missing = undefined_names(text);
    if (missing.empty()) std::cerr << text << "error: the program does not link\n";
    for (const std::string& name : missing) {
      std::cerr << "error: " << name << " is not defined in " << options.files[0]
                << (options.files.size() > 1 ? " or another file of the command" : "") << "\n";
    }
    return "";
  }
  return directory / "program";
}

// ---- reports
// -------------------------------------------------------------------------------------

std::string plural(int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

// Prints a sentence to stderr, in 80 columns on a terminal, and otherwise in one line, as compilers
// do, so that a search or an editor finds all of it.
void print_sentence(const std::string& text) {
  std::cerr << (isatty(STDERR_FILENO) != 0 ? fa::wrapped(text) : text) << "\n";
}

void print_hazards(const ordered_json& report) {
  for (const ordered_json& hazard : report["hazards"]) {
    print_sentence(hazard["message"]);
    const auto quote = [&](const char* key) {
      if (!hazard[key].is_string()) return;
      const std::string place = hazard[key], text = source_line(place);
      if (!text.empty()) std::cerr << "    " << place << "   " << text << "\n";
      const std::string calls = key + std::string("_calls");
      if (!hazard.contains(calls)) return;
      for (const std::string call : hazard[calls])
        std::cerr << "      called at " << call << "   " << source_line(call) << "\n";
    };
    quote("where");
    if (hazard["other"] != hazard["where"]) quote("other");
    const auto kind = kKinds.find(hazard["kind"]);
    print_sentence("    in kernel " + hazard["kernel"].get<std::string>() + ", " +
                   plural(hazard["count"], "time") +
                   (kind != kKinds.end() ? std::string("; ") + kind->second.fix : ""));
  }
  for (const ordered_json& note : report["notes"]) {
    print_sentence("note: " + note["message"].get<std::string>());
  }
}

void print_profile(const ordered_json& report) {
  for (const ordered_json& kernel : report["kernels"]) {
    const auto dims = [&](const char* key) {
      const ordered_json& d = kernel[key];
      return "(" + d[0].dump() + ", " + d[1].dump() + ", " + d[2].dump() + ")";
    };
    std::cerr << "\nkernel " << kernel["name"].get<std::string>() << ", " << kernel["launches"]
              << (kernel["launches"] == 1 ? " launch" : " launches") << ": grid " << dims("grid")
              << ", block " << dims("block") << ",\n  " << kernel["shared_bytes"]
              << " bytes of shared memory per block\n";
    const ordered_json& profile = kernel["profile"];
    for (const auto& [name, value] : profile.items()) {
      if (value == 0 || name == "shared_bytes_per_block" || name.ends_with("_ideal")) continue;
      std::fprintf(stderr, "  %-28s %12lld", name.c_str(), value.get<long long>());
      if (profile.contains(name + "_ideal")) {
        std::fprintf(stderr, "   ideal %12lld", profile[name + "_ideal"].get<long long>());
      }
      const ordered_json& estimates = kernel["estimates"];
      const bool estimate = std::find(estimates.begin(), estimates.end(), name) != estimates.end();
      std::fprintf(stderr, "%s\n", estimate ? "   (estimate)" : "");
    }
    const ordered_json& lines = kernel["lines"];
    if (!lines.empty())
      std::cerr << "  lines with the most wavefronts and sectors (ideal in brackets):\n";
    for (size_t i = 0; i < std::min<size_t>(lines.size(), 8); ++i) {
      const ordered_json& line = lines[i];
      if (!line["where"].is_string()) continue;  // the compiler's own
      std::fprintf(stderr, "    %s", line["where"].get<std::string>().c_str());
      if (line["shared_wavefronts"] != 0) {
        std::fprintf(stderr, "   wavefronts %lld (%lld)",
                     line["shared_wavefronts"].get<long long>(),
                     line["shared_wavefronts_ideal"].get<long long>());
      }
      if (line["global_sectors"] != 0) {
        std::fprintf(stderr, "   sectors %lld (%lld)", line["global_sectors"].get<long long>(),
                     line["global_sectors_ideal"].get<long long>());
      }
      std::fprintf(stderr, "\n      %s\n", source_line(line["where"]).c_str());
    }
  }
}

ordered_json sarif(const ordered_json& report) {
  ordered_json results = ordered_json::array();
  for (const ordered_json& hazard : report["hazards"]) {
    const auto location = [](const std::string& place) {
      const size_t colon = place.rfind(':');
      return ordered_json{
          {"physicalLocation",
           {{"artifactLocation", {{"uri", place.substr(0, colon)}}},
            {"region", {{"startLine", std::max(1, std::atoi(place.c_str() + colon + 1))}}}}}};
    };
    ordered_json result = {{"ruleId", hazard["kind"]},
                           {"level", "error"},
                           {"message", {{"text", hazard["message"]}}},
                           {"locations", {location(hazard["where"])}}};
    if (hazard["other"].is_string()) result["relatedLocations"] = {location(hazard["other"])};
    results.push_back(result);
  }
  return {{"version", "2.1.0"},
          {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"runs", {{{"tool", {{"driver", {{"name", "emucuda"}}}}}, {"results", results}}}}};
}

// Runs the program, prints what was found, and returns the exit status.
int run(const Options& options, const fs::path& program, const fs::path& directory) {
  const std::string report_file = (directory / "report.json").string();
  std::map<std::string, std::string> environment = {{"EMUCUDA_REPORT", report_file}};
  if (options.profile) environment["EMUCUDA_PROFILE"] = "1";
  if (options.once) environment["EMUCUDA_ONCE"] = "1";
  if (!options.seed.empty()) environment["EMUCUDA_SEED"] = options.seed;
  signal(SIGINT, SIG_IGN);  // the program's business
  const int status = finish(start(join({program.string()}, options.arguments), "", environment));
  ordered_json report = ordered_json::parse(read_file(report_file), nullptr, false);
  if (report.is_discarded()) {  // _exit, SIGKILL
    report = {{"kernels", ordered_json::array()},
              {"hazards", ordered_json::array()},
              {"notes", ordered_json::array()},
              {"stopped", status > 128 ? "signal " + std::to_string(status - 128) + " ended it"
                                       : "it ended without the report of its kernels"}};
  }
  if (!options.tool.empty()) {
    ordered_json kept = ordered_json::array();
    for (const ordered_json& hazard : report["hazards"]) {
      const auto kind = kKinds.find(hazard["kind"]);
      if (kind != kKinds.end() && options.tool == kind->second.tool) kept.push_back(hazard);
    }
    report["hazards"] = kept;
  }
  const std::string stopped = report["stopped"];
  print_hazards(report);
  if (!stopped.empty()) std::cerr << "the program stopped: " << stopped << "\n";
  if (options.profile) print_profile(report);
  const size_t count = report["hazards"].size();
  std::cerr << "emucuda: " << plural(static_cast<int64_t>(report["kernels"].size()), "kernel")
            << ", " << plural(static_cast<int64_t>(count), "hazard")
            << "; the program's exit status is " << status
            << (status == 0 && count > 0 ? ", emucuda's is 1\n" : "\n");
  ordered_json all = {{"program", {{"exit", status}, {"stopped", stopped}}}};
  for (const char* key : {"kernels", "hazards", "notes"}) all[key] = report[key];
  if (!options.json.empty()) write_file(options.json, all.dump(1) + "\n");
  if (!options.sarif.empty()) write_file(options.sarif, sarif(report).dump(1) + "\n");
  return status != 0 ? status : count > 0 ? 1 : 0;
}

int run_on_gpu(const Options& options, const fs::path& directory) {
  if (!fs::exists("/dev/nvidiactl")) throw UsageError("--device gpu: there is no NVIDIA GPU here");
  const std::string nvcc = program_on_path({"nvcc"});
  if (nvcc.empty()) throw UsageError("--device gpu: there is no nvcc on the PATH");
  const fs::path program = directory / "program";
  if (finish(
          start(join(join({nvcc, "-arch=native", "-O2", "-o", program.string()}, options.compiler),
                     options.files),
                "")) != 0) {
    return 2;
  }
  return finish(start(join({program.string()}, options.arguments), ""));
}

// ---- the command line
// ----------------------------------------------------------------------------

std::string no_such_option(const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  return name + ": no such option" +
         fa::did_you_mean(name, {"--profile", "--json", "--sarif", "--tool", "--schedule-seed",
                                 "--once", "--arch", "--device", "--help"}) +
         " (emucuda --help lists them)";
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    const auto value = [&](const std::string& name) -> std::string {
      if (argument.size() > name.size() && argument.compare(0, name.size() + 1, name + "=") == 0) {
        return argument.substr(name.size() + 1);
      }
      if (i + 1 >= argc) throw UsageError(name + ": needs a value");
      return argv[++i];
    };
    const auto is = [&](const char* name) {
      return argument == name || argument.rfind(std::string(name) + "=", 0) == 0;
    };
    if (argument == "--") {
      options.arguments.assign(argv + i + 1, argv + argc);
      break;
    }
    if (argument == "-h" || argument == "--help") {
      std::cout << kUsage;
      std::exit(0);
    } else if (argument == "--profile") {
      options.profile = true;
    } else if (argument == "--once") {
      options.once = true;
    } else if (is("--json")) {
      options.json = value("--json");
    } else if (is("--sarif")) {
      options.sarif = value("--sarif");
    } else if (is("--schedule-seed")) {
      options.seed = value("--schedule-seed");
      if (options.seed.empty() ||
          options.seed.find_first_not_of("0123456789") != std::string::npos) {
        throw UsageError("--schedule-seed " + options.seed + ": expected a number, 0 or more");
      }
    } else if (is("--tool")) {
      options.tool = value("--tool");
      if (!std::set<std::string>{"memcheck", "racecheck", "initcheck", "synccheck"}.count(
              options.tool)) {
        throw UsageError("--tool " + options.tool +
                         ": expected memcheck, racecheck, initcheck or synccheck");
      }
    } else if (argument == "-o") {
      options.output = value("-o");
    } else if (is("--arch")) {
      options.arch = value("--arch");
    } else if (is("--device")) {
      options.device = value("--device");
      if (!std::set<std::string>{"auto", "gpu", "emulator"}.count(options.device)) {
        throw UsageError("--device " + options.device + ": expected auto, gpu or emulator");
      }
    } else if (argument == "-I" || argument == "-D") {
      const std::string next = value(argument);
      options.compiler.push_back(argument + next);
    } else if (argument.rfind("-I", 0) == 0 || argument.rfind("-D", 0) == 0 ||
               argument.rfind("-std=", 0) == 0) {
      options.compiler.push_back(argument);
    } else if (argument == "-fmad=true" || argument == "-fmad=false") {  // nvcc's word
      options.contract = argument == "-fmad=true" ? "fast" : "off";
    } else if (argument.rfind("-O", 0) == 0) {
      options.optimize = argument == "-O" ? "-O" + value("-O") : argument;
    } else if (argument[0] == '-') {
      throw UsageError(no_such_option(argument));
    } else {
      if (!fs::exists(argument)) throw UsageError(argument + ": no such file");
      if (fs::is_directory(argument)) throw UsageError(argument + ": is a directory");
      options.files.push_back(argument);
    }
  }
  if (options.files.empty())
    throw UsageError("no file: emucuda FILE.cu (emucuda --help says more)");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const Directory directory;
    if (options.device == "gpu") return run_on_gpu(options, directory.path);
    const bool compiled = options.files.size() == 1 &&
                          access(options.files[0].c_str(), X_OK) == 0 &&
                          read_file(options.files[0])
                                  .compare(0, 4,
                                           "\x7f"
                                           "ELF") == 0;
    const fs::path program =
        compiled ? fs::canonical(options.files[0]) : compile(options, directory.path);
    if (program.empty()) return 2;
    if (options.output.empty()) return run(options, program, directory.path);
    fs::copy_file(program, options.output, fs::copy_options::overwrite_existing);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 2;
  }
}

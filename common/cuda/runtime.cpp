// CUDA's runtime API on the emulator, with memory, launches, errors, and the report at the
// program's end.
//
// Environment, set by the program emucuda: EMUCUDA_REPORT (the file for the report, as JSON),
// EMUCUDA_PROFILE=1, EMUCUDA_SEED=N, EMUCUDA_ONCE=1 (a launch runs only the first time that it has
// the same grid, block and arguments, until the host copies or sets one of its buffers).

#include "common/cuda/runtime.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/include/emucuda_errors.h"
#include "common/cuda/include/emucuda_properties.h"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/simt/block.hpp"
#include "common/simt/device.hpp"
#include "common/simt/hazard_log.hpp"
#include "common/simt/simt.hpp"

namespace emucuda {

namespace {

using nlohmann::ordered_json;

constexpr int kNoError = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidConfiguration = 9,
              kInvalidSymbol = 13, kInvalidFunction = 98, kInvalidDevice = 101,
              kInvalidHandle = 400, kTimeout = 702;
constexpr size_t kDefaultShared = 48 * 1024, kMostShared = 227 * 1024;
constexpr int64_t kMostBlocks = int64_t{1} << 27;  // in a grid, where a GPU's limit is 2^31 - 1
constexpr size_t kMemory =                         // the card's
    std::min<uint64_t>(uint64_t{80} << 30, std::numeric_limits<size_t>::max());

// The file's number, then the name as the linker has it. Each file of the command is a separate
// program to the card, so that two of them may have a kernel or a variable of the same name.
using Symbol = std::pair<int, std::string>;

struct Kernel {
  std::string symbol;  // as the linker has it
  void (*thunk)(void**) = nullptr;
  uint32_t static_bytes = 0;
  fa::Dim3 cluster = {1, 1, 1};  // its __cluster_dims__
  int narrowest = 4;             // size of the smallest access in bytes: 1, 2 or 4
  bool async_proxy = true;       // it may have bulk copies or wgmma
  std::string where;             // "file.cu:12"
  std::vector<std::string> parameters;
  std::vector<size_t> element_bytes;  // element size of each pointer parameter
  std::vector<size_t> parameter_bytes;
  size_t most_dynamic = kDefaultShared;
};

struct Fill {  // a cudaMemset
  int value = 0;
  size_t bytes = 0;  // 0: none
  int64_t epoch = 0;
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};

struct Buffer {
  void* memory = nullptr;
  size_t bytes = 0;
  std::string name;
  size_t element_bytes = 1;  // as the kernel's parameter with this name has them
  bool owned = true;
  std::unique_ptr<fa::simt::RegisteredBuffer> registered;
  // For memory from cudaMalloc, which is filled with 0xff: nonzero for each byte into which 0xff
  // has been written. A byte that is 0xff and has 0 here has not been written. One more mark, after
  // them, says that all of it has been. Without EMUCUDA_ONCE, and only if the host cannot write the
  // memory itself.
  std::unique_ptr<unsigned char, Free> written;
  // EMUCUDA_ONCE: number of the host's last call whose effect the buffer may hold; the number of
  // its cudaMalloc; its last cudaMemset since the last copy; and a cudaMemset that is still to be
  // done.
  int64_t epoch = 0, made = 0;
  Fill last_fill, to_do;
  bool host_sees = false;  // the host accesses the bytes without a copy
};

struct Freed {  // a buffer that was
  size_t bytes = 0, element_bytes = 1;
  std::string name;
};

struct Variable {
  void* memory = nullptr;
  size_t bytes = 0;
  bool constant = false;
};

struct KernelReport {
  const Kernel* kernel = nullptr;
  std::string name, where;
  int launches = 0;
  fa::LaunchConfig config;
  size_t shared_bytes = 0;
  fa::simt::Counters counters;
  std::map<std::pair<std::string, int>, fa::simt::LineCounters> lines;
};

struct State {
  std::recursive_mutex mutex;
  std::map<Symbol, Kernel> kernels;
  std::map<const void*, Kernel*> stubs;  // by the host function's address
  std::map<Symbol, Variable> variables;
  std::map<const void*, Symbol> symbols;  // by the host's shadow of the variable
  std::map<uint64_t, Buffer> buffers;     // by address
  std::map<uint64_t, Freed> freed_names;  // by address, while it belongs to no other buffer
  std::vector<std::unique_ptr<fa::simt::RegisteredBuffer>> globals;
  std::vector<std::pair<uint64_t, uint64_t>> constants;  // [begin, end)
  std::vector<Buffer> freed;  // EMUCUDA_ONCE: kept for another cudaMalloc
  int allocations = 0;
  size_t allocated = 0;  // bytes of the buffers that cudaMalloc made
  int last_error = 0, sticky_error = 0;
  std::vector<KernelReport> reports;
  std::map<std::string, ordered_json> hazards;  // by kind and place
  std::set<const char*> inlined;                // file names that calls follow (place.cpp)
  std::string running;                          // kernel, for a crash's report
  // EMUCUDA_ONCE: the launches so far, and the epoch of the buffers that each was given.
  std::map<std::string, int64_t> done;
  int64_t epoch = 0;           // number of copies and cudaMemsets by the host
  int64_t variable_epoch = 0;  // when the last one changed a variable
  bool profile = std::getenv("EMUCUDA_PROFILE") != nullptr;
  bool once = std::getenv("EMUCUDA_ONCE") != nullptr;
  uint64_t seed = std::getenv("EMUCUDA_SEED") != nullptr
                      ? std::strtoull(std::getenv("EMUCUDA_SEED"), nullptr, 10)
                      : 0;
  bool written = false;
};

// Never destroyed, because destructors of the program's own objects may still call cudaFree.
State& state() {
  static State& instance = *new State;
  return instance;
}

int fail(int error) {
  if (error != kNoError) state().last_error = error;
  return error;
}
int sticky() { return state().sticky_error; }

std::string demangled(const std::string& symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return result;
}

// "void add<float>(float const*, int)": "add<float>".
std::string short_name(const std::string& symbol) {
  std::string text = demangled(symbol);
  int depth = 0;
  size_t end = text.size();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (text[i] == '(' && depth == 0 && text.compare(i, 21, "(anonymous namespace)") != 0) {
      end = i;
      break;
    }
  }
  text.resize(end);
  depth = 0;
  for (size_t i = text.size(); i-- > 0;) {  // without the return type
    if (text[i] == '>') ++depth;
    if (text[i] == '<') --depth;
    if (text[i] == ' ' && depth == 0 && text.compare(i, 11, " namespace)") != 0)
      return text.substr(i + 1);
  }
  return text;
}

// The parameters' types in a demangled name.
std::vector<std::string> parameter_types(const std::string& symbol) {
  const std::string text = demangled(symbol);
  std::vector<std::string> types;
  const size_t open = text.rfind('(') == std::string::npos ? text.size() : [&] {
    int depth = 0;  // the bracket that matches the last one
    for (size_t i = text.size(); i-- > 0;) {
      if (text[i] == ')') ++depth;
      if (text[i] == '(' && --depth == 0) return i;
    }
    return text.size();
  }();
  int depth = 0;
  std::string type;
  for (size_t i = open + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(') ++depth;
    if ((c == ',' && depth == 0) || (c == ')' && depth == 0)) {
      types.push_back(type.substr(std::min(type.size(), type.find_first_not_of(' '))));
      type.clear();
      continue;
    }
    if (c == '>' || c == ')') --depth;
    type += c;
  }
  return types;
}

size_t element_bytes_of(const std::string& type) {
  static const std::pair<const char*, size_t> kSizes[] = {
      {"float4", 16},  {"int4", 16},  {"uint4", 16},   {"double2", 16},  {"float2", 8},
      {"int2", 8},     {"uint2", 8},  {"half2", 4},    {"bfloat162", 4}, {"half", 2},
      {"bfloat16", 2}, {"double", 8}, {"float", 4},    {"long", 8},      {"short", 2},
      {"char", 1},     {"bool", 1},   {"unsigned", 4}, {"int", 4}};
  if (type.find('*') == std::string::npos) return 1;
  for (const auto& [name, bytes] : kSizes) {
    if (type.find(name) != std::string::npos) return bytes;
  }
  return 1;
}

// ---- memory
// --------------------------------------------------------------------------------------

Buffer* buffer_at(const void* p) {
  auto& buffers = state().buffers;
  auto after = buffers.upper_bound(number(p));
  if (after == buffers.begin()) return nullptr;
  Buffer& buffer = std::prev(after)->second;
  return number(p) < number(buffer.memory) + std::max<size_t>(buffer.bytes, 1) ? &buffer : nullptr;
}

const Variable* variable_at(const void* p) {
  for (const auto& [name, variable] : state().variables) {
    const uint64_t begin = number(variable.memory);
    if (number(p) >= begin && number(p) < begin + variable.bytes) return &variable;
  }
  return nullptr;
}

// False only for bytes that begin in a buffer or a variable and end outside.
bool fits(const void* p, size_t bytes, bool on_device) {
  if (const Buffer* buffer = buffer_at(p)) {
    return number(p) + bytes <= number(buffer->memory) + buffer->bytes;
  }
  if (const Variable* variable = variable_at(p))
    return number(p) + bytes <= number(variable->memory) + variable->bytes;
  return !on_device;
}

void fill_now(Buffer& buffer) {
  std::memset(buffer.memory, buffer.to_do.value, buffer.to_do.bytes);
  buffer.to_do = {};
}

// The host copies or sets memory here, so the launches that get it run again (--once).
void note_host_use(const void* p) {
  const int64_t now = ++state().epoch;
  if (Buffer* buffer = buffer_at(p)) {
    fill_now(*buffer);
    buffer->epoch = now;
    buffer->last_fill = {};
  } else if (variable_at(p) != nullptr) {
    state().variable_epoch = now;
  }
}

void name_buffer(Buffer& buffer, const std::string& name, size_t element_bytes) {
  if (buffer.registered != nullptr && buffer.name == name) return;
  buffer.name = name;
  buffer.element_bytes = element_bytes;
  buffer.registered = nullptr;
  const size_t near = std::max(arena_gap(), size_t{1} << 20);
  buffer.registered = std::make_unique<fa::simt::RegisteredBuffer>(buffer.memory, buffer.bytes,
                                                                   name, element_bytes, near);
}

// Makes it a buffer that kernels may access, and returns its address.
void* keep(Buffer buffer) {
  void* const memory = buffer.memory;
  state().freed_names.erase(number(memory));
  Buffer& kept = state().buffers[number(memory)] = std::move(buffer);
  name_buffer(kept, "allocation_" + std::to_string(++state().allocations), 1);
  return memory;
}

// EMUCUDA_ONCE: a launcher may allocate its own buffers. So that its next launch has the same
// arguments, a cudaMalloc of the same size gets the buffer that was freed first.
bool allocate_again(void** pointer, size_t bytes, bool host_sees) {
  std::vector<Buffer>& freed = state().freed;
  const auto found = std::find_if(freed.begin(), freed.end(), [&](const Buffer& buffer) {
    return buffer.bytes == bytes && buffer.host_sees == host_sees;
  });
  if (found == freed.end()) return false;
  Buffer buffer = std::move(*found);
  freed.erase(found);
  buffer.epoch = 0;
  buffer.to_do = {0xff, bytes, 0};  // as after the first cudaMalloc
  if (host_sees) fill_now(buffer);
  *pointer = keep(std::move(buffer));
  return true;
}

int allocate(void** pointer, size_t bytes, bool host_sees = false) {
  if (pointer == nullptr) return fail(kInvalidValue);
  if (sticky() != 0) return fail(sticky());
  const std::lock_guard lock(state().mutex);
  *pointer = nullptr;
  if (bytes == 0) return kNoError;
  if (allocate_again(pointer, bytes, host_sees)) return kNoError;
  Buffer buffer;
  try {
    if (bytes > kMemory - std::min(kMemory, state().allocated)) throw std::bad_alloc();
    if (bytes > (size_t{1} << 28) && bytes > free_memory()) {
      std::fprintf(stderr, "emucuda: cudaMalloc of %zu bytes fails: this machine has %zu free\n",
                   bytes, free_memory());
      throw std::bad_alloc();
    }
    buffer.memory = allocate_in_arena(bytes);
  } catch (const std::bad_alloc&) {
    return fail(kOutOfMemory);
  }
  buffer.bytes = bytes;
  buffer.host_sees = host_sees;
  if (!host_sees && !state().once)
    buffer.written.reset(static_cast<unsigned char*>(std::calloc(bytes + 1, 1)));
  state().allocated += bytes;
  // A GPU leaves the old bytes. Here NaN shows that nothing has been written.
  std::memset(buffer.memory, 0xff, bytes);
  *pointer = keep(std::move(buffer));
  return kNoError;
}

int release(void* pointer) {
  if (pointer == nullptr) return kNoError;
  const std::lock_guard lock(state().mutex);
  const auto found = state().buffers.find(number(pointer));
  if (found == state().buffers.end()) return fail(kInvalidValue);
  found->second.registered = nullptr;
  if (arena_gap() != 0 && found->second.owned)
    state().freed_names[number(pointer)] = {found->second.bytes, found->second.element_bytes,
                                            found->second.name};
  constexpr size_t kMostKept = size_t{1} << 26;  // bytes per buffer
  if (state().once && found->second.owned && found->second.bytes <= kMostKept) {
    state().freed.push_back(std::move(found->second));
  } else if (found->second.owned) {
    free_in_arena(found->second.memory, found->second.bytes);
    state().allocated -= found->second.bytes;
  }
  state().buffers.erase(found);
  return kNoError;
}

// EMUCUDA_ONCE: false if the device has done the same before, and the host has neither copied nor
// set one of these buffers since. All of them take the latest epoch, because what the device does
// may write one of them from the others.
bool first_time(const std::string& key, const std::vector<Buffer*>& buffers) {
  int64_t epoch = state().variable_epoch;
  for (const Buffer* buffer : buffers) epoch = std::max(epoch, buffer->epoch);
  const auto [done, fresh] = state().done.try_emplace(key, epoch);
  const bool again = !fresh && done->second == epoch;
  done->second = epoch;
  for (Buffer* buffer : buffers) {
    if (!again) fill_now(*buffer);
    buffer->to_do = {};
    buffer->epoch = epoch;
  }
  return !again;
}

int copy(void* to, const void* from, size_t bytes, int kind) {
  if (sticky() != 0) return fail(sticky());
  if (kind < 0 || kind > 4) return fail(21);
  if (bytes == 0) return kNoError;
  if (to == nullptr || from == nullptr) return fail(kInvalidValue);
  const std::lock_guard lock(state().mutex);
  const bool to_device = kind == 1 || kind == 3, from_device = kind == 2 || kind == 3;
  if (!fits(to, bytes, to_device) || !fits(from, bytes, from_device)) return fail(kInvalidValue);
  Buffer *target = buffer_at(to), *source = buffer_at(from);
  if (state().once && target != nullptr && source != nullptr && !target->host_sees &&
      !source->host_sees) {  // within the device, as a kernel does it
    std::ostringstream key;
    key << "copy " << to << ' ' << from << ' ' << bytes;
    if (!first_time(key.str(), {target, source})) return kNoError;
  } else {
    note_host_use(to);
    note_host_use(from);
  }
  note_written(to, bytes, from);
  std::memmove(to, from, bytes);
  return kNoError;
}

// ---- launches
// ------------------------------------------------------------------------------------

ordered_json place_json(const fa::simt::Site& site) {
  if (site.line == 0) return nullptr;
  return std::string(site.file) + ":" + std::to_string(site.line);
}

// The calls through which the place was inlined, from the inside.
ordered_json calls_json(const fa::simt::Site& site) {
  ordered_json calls = ordered_json::array();
  if (state().inlined.count(site.file) == 0) return calls;
  std::istringstream text(site.file + std::strlen(site.file) + 1);
  for (std::string call; std::getline(text, call);) calls.push_back(call);
  return calls;
}

void add_hazard(const std::string& kind, const ordered_json& where, const ordered_json& other,
                int64_t count, const std::vector<int>& threads, int block,
                const std::string& kernel, const std::string& message,
                const ordered_json& where_calls = ordered_json::array(),
                const ordered_json& other_calls = ordered_json::array()) {
  const std::string key = kind + " " + where.dump();
  auto [found, fresh] = state().hazards.try_emplace(key);
  if (!fresh) {
    found->second["count"] = found->second["count"].get<int64_t>() + count;
    return;
  }
  found->second = {{"kind", kind},     {"where", where},    {"other", other},
                   {"count", count},   {"block", block},    {"threads", threads},
                   {"kernel", kernel}, {"message", message}};
  if (!where_calls.empty()) found->second["where_calls"] = where_calls;
  if (!other_calls.empty()) found->second["other_calls"] = other_calls;
}

// "; x has 300 elements" for an address next to the buffer that the text names, "; cudaFree has
// freed x[3], which was there" for one in a buffer that was, or else "".
std::string words_of_buffer(uint64_t address, const std::string& text) {
  const auto freed = state().freed_names.upper_bound(address);
  if (freed != state().freed_names.begin()) {
    const auto& [begin, was] = *std::prev(freed);
    if (address < begin + was.bytes)
      return "; cudaFree has freed " + was.name + "[" +
             std::to_string((address - begin) / was.element_bytes) + "], which was there";
  }
  const auto words = [&](const Buffer& buffer) -> std::string {
    if (text.find(" " + buffer.name + "[") == std::string::npos) return "";
    return "; " + buffer.name + " has " + std::to_string(buffer.bytes / buffer.element_bytes) +
           (buffer.element_bytes == 1 ? " bytes" : " elements");
  };
  const auto& buffers = state().buffers;
  const auto after = buffers.upper_bound(address);
  std::string found = after == buffers.begin() ? "" : words(std::prev(after)->second);
  if (found.empty() && after != buffers.end()) found = words(after->second);
  return found;
}

uint32_t static_bytes_of_launch = 0;
uint64_t constants_begin = ~uint64_t{0}, constants_end = 0;  // lowest begin and highest end
int grid_arrivals = 0;

bool is_vector_of_same(const fa::LaunchConfig& a, const fa::LaunchConfig& b) {
  return a.grid == b.grid && a.block == b.block && a.smem_bytes == b.smem_bytes;
}

void name_arguments(const Kernel& kernel, void** arguments) {
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (kernel.element_bytes[i] == 0) continue;
    void* pointer = nullptr;
    std::memcpy(&pointer, arguments[i], sizeof pointer);
    Buffer* buffer = buffer_at(pointer);
    if (buffer != nullptr && pointer == buffer->memory && !kernel.parameters[i].empty()) {
      name_buffer(*buffer, kernel.parameters[i], kernel.element_bytes[i]);
    }
  }
}

// EMUCUDA_ONCE does the same for a launch. Its buffers are those that its arguments point to.
bool first_launch(const Kernel& kernel, const fa::LaunchConfig& config, void** arguments) {
  std::ostringstream key;
  key << &kernel << ' ' << config.grid.x << ' ' << config.grid.y << ' ' << config.grid.z << ' '
      << config.block.x << ' ' << config.block.y << ' ' << config.block.z << ' '
      << config.smem_bytes;
  std::vector<Buffer*> buffers;
  for (size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    const std::string bytes(static_cast<const char*>(arguments[i]), kernel.parameter_bytes[i]);
    key << ' ' << bytes;
    for (size_t at = 0; at + sizeof(void*) <= bytes.size(); at += sizeof(void*)) {  // in a struct
      void* pointer = nullptr;
      std::memcpy(&pointer, bytes.data() + at, sizeof pointer);
      if (Buffer* buffer = buffer_at(pointer)) buffers.push_back(buffer);
    }
  }
  return first_time(key.str(), buffers);
}

int launch(const void* stub, const fa::LaunchConfig& asked, void** arguments) {
  const std::lock_guard lock(state().mutex);
  if (sticky() != 0) return fail(sticky());
  const auto found = state().stubs.find(stub);
  if (found == state().stubs.end()) return fail(kInvalidFunction);
  Kernel& kernel = *found->second;
  fa::LaunchConfig config = asked;
  if (asked.smem_bytes > kernel.most_dynamic) return fail(kInvalidValue);
  config.smem_bytes += kernel.static_bytes;
  if (config.cluster == fa::Dim3{}) config.cluster = kernel.cluster;

  const std::string name = short_name(kernel.symbol);
  const int64_t blocks = int64_t{config.grid.x} * config.grid.y * config.grid.z;
  if (blocks > kMostBlocks) {
    std::fprintf(stderr, "error: %s: kernel %s has %lld blocks; the emulator runs up to %lld\n",
                 kernel.where.c_str(), name.c_str(), static_cast<long long>(blocks),
                 static_cast<long long>(kMostBlocks));
    return fail(kInvalidConfiguration);
  }
  if (state().once && !first_launch(kernel, config, arguments)) return kNoError;
  auto report =
      std::find_if(state().reports.begin(), state().reports.end(), [&](const KernelReport& r) {
        return r.kernel == &kernel && is_vector_of_same(r.config, asked);
      });
  if (report == state().reports.end()) {
    state().reports.push_back({&kernel, name, kernel.where, 0, asked, config.smem_bytes, {}, {}});
    report = std::prev(state().reports.end());
  }
  name_arguments(kernel, arguments);

  fa::simt::Config run;
  run.cuda_rules = true;
  run.granule_bytes = kernel.narrowest;
  run.async_proxy = kernel.async_proxy;
  run.counters = run.lines = state().profile;
  run.schedule_seed = state().seed;
  state().running = name;
  static_bytes_of_launch = kernel.static_bytes;
  static const fa::simt::RegisteredBuffer registered(&grid_arrivals, sizeof grid_arrivals,
                                                     "the grid's barrier");
  grid_arrivals = 0;
  int error = kNoError;
  try {
    const fa::simt::Report result = fa::simt::run(run, [&] {
      try {
        emulator::detail::launch([&] { kernel.thunk(arguments); }, config);
        return;
      } catch (const KernelStop& stop) {
        error = stop.error;
        std::fflush(stdout);
        if (stop.error == cudaErrorAssert) std::fprintf(stderr, "%s\n", stop.text.c_str());
        const size_t place = stop.text.find(": ");
        add_hazard(stop.error == cudaErrorAssert ? "assert" : "trap", stop.text.substr(0, place),
                   nullptr, 1, {}, 0, name, stop.text);
      } catch (const fa::InputError&) {
        throw;  // no GPU accepts such a launch
      } catch (const std::runtime_error& stop) {
        const bool stack = std::strncmp(stop.what(), "local arrays", 12) == 0;  // Block's words
        const std::string kind = stack ? "stack_overflow" : "deadlock";
        error = stack ? cudaErrorLaunchFailure : kTimeout;
        add_hazard(kind, kernel.where, nullptr, 1, {}, 0, name,
                   kernel.where + ": " + kind + ": in kernel " + name + ", " + stop.what());
      }
    });
    ++report->launches;
    report->counters += result.counters;
    for (const fa::simt::LineCounters& line : result.lines) {
      fa::simt::LineCounters& sum = report->lines[{line.where.file, line.where.line}];
      sum.where = line.where;
      sum.shared_wavefronts += line.shared_wavefronts;
      sum.shared_wavefronts_ideal += line.shared_wavefronts_ideal;
      sum.global_sectors += line.global_sectors;
      sum.global_sectors_ideal += line.global_sectors_ideal;
    }
    for (const fa::simt::Hazard& hazard : result.hazards) {
      std::vector<int> threads;
      if (hazard.thread >= 0) threads.push_back(hazard.thread);
      if (hazard.other_thread >= 0) threads.push_back(hazard.other_thread);
      std::string text = hazard.text;
      if (hazard.kind == fa::simt::HazardKind::kOutOfBounds)
        text += words_of_buffer(hazard.address, text);
      add_hazard(fa::simt::hazard_name(hazard.kind), place_json(hazard.where),
                 place_json(hazard.other), hazard.count, threads, hazard.block, name, text,
                 calls_json(hazard.where), calls_json(hazard.other));
    }
  } catch (const fa::InputError&) {
    state().running.clear();
    return fail(kInvalidConfiguration);
  }
  state().running.clear();
  if (error != kNoError) state().sticky_error = error;
  // The launch itself succeeds, and the next call returns the error.
  return kNoError;
}

// ---- the report
// ----------------------------------------------------------------------------------

ordered_json dim_json(const fa::Dim3& d) { return {d.x, d.y, d.z}; }

}  // namespace

void write_report(const std::string& stopped) {
  const char* path = std::getenv("EMUCUDA_REPORT");
  if (path == nullptr || state().written) return;
  state().written = true;
  ordered_json kernels = ordered_json::array(), hazards = ordered_json::array(),
               notes = ordered_json::array();
  for (const KernelReport& report : state().reports) {
    ordered_json kernel = {{"name", report.name},
                           {"where", report.where},
                           {"launches", report.launches},
                           {"grid", dim_json(report.config.grid)},
                           {"block", dim_json(report.config.block)},
                           {"shared_bytes", report.shared_bytes}};
    if (state().profile) {
      ordered_json profile = ordered_json::object(), estimates = ordered_json::array(),
                   lines = ordered_json::array();
      for (const fa::simt::CounterField& field : fa::simt::kCounterFields) {
        profile[field.name] = report.counters.*field.value;
        if (fa::simt::is_estimate(report.counters, field.name)) estimates.push_back(field.name);
      }
      std::vector<fa::simt::LineCounters> sorted;
      for (const auto& [place, line] : report.lines) sorted.push_back(line);
      std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
        return a.shared_wavefronts + a.global_sectors > b.shared_wavefronts + b.global_sectors;
      });
      for (const fa::simt::LineCounters& line : sorted) {
        if (line.shared_wavefronts + line.global_sectors == 0) continue;
        lines.push_back({{"where", place_json(line.where)},
                         {"shared_wavefronts", line.shared_wavefronts},
                         {"shared_wavefronts_ideal", line.shared_wavefronts_ideal},
                         {"global_sectors", line.global_sectors},
                         {"global_sectors_ideal", line.global_sectors_ideal}});
      }
      kernel["profile"] = profile;
      kernel["estimates"] = estimates;
      kernel["lines"] = lines;
    }
    kernels.push_back(kernel);
  }
  for (const auto& [key, hazard] : state().hazards) {
    const bool note =
        hazard["kind"] == fa::simt::hazard_name(fa::simt::HazardKind::kSameValueStore);
    (note ? notes : hazards).push_back(hazard);
  }
  const ordered_json all = {
      {"kernels", kernels}, {"hazards", hazards}, {"notes", notes}, {"stopped", stopped}};
  fa::write_file(path, all.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

std::string place_of_crash() {
  if (fa::simt::running_thread == nullptr) return "the host code ";
  const fa::simt::Thread& thread = *fa::simt::running_thread;
  return "thread " + std::to_string(thread.index) + " of block " +
         std::to_string(thread.block->index()) + " of kernel " + state().running + " ";
}

namespace {

struct Start {
  Start() {
    fa::simt::paths_as_given = true;
    std::atexit([] { write_report(""); });
    report_crashes();
  }
} start;

struct Call {  // what <<<...>>> says, between the push and the pop
  fa::Dim3 grid, block;
  size_t shared_bytes = 0;
  void* stream = nullptr;
};
thread_local std::vector<Call> calls;

// `unit` is the handle that __cudaRegisterFatBinary has returned.
Symbol symbol_of(void** unit, const char* symbol) {
  return {*reinterpret_cast<const int*>(unit), symbol};
}

}  // namespace

bool is_constant(const void* p, size_t bytes) {
  if (number(p) < constants_begin || number(p) >= constants_end) return false;
  for (const auto& [begin, end] : state().constants) {
    if (number(p) >= begin && number(p) + bytes <= end) return true;
  }
  return false;
}

// The buffers do not change while a kernel runs, because launch() holds the mutex.
void note_written(const void* p, size_t bytes, const void* value) {
  const Buffer* buffer = buffer_at(p);
  if (buffer == nullptr || buffer->written == nullptr) return;
  const size_t at = number(p) - number(buffer->memory);
  unsigned char* const marks = buffer->written.get() + at;
  bytes = std::min(bytes, buffer->bytes - at);
  if (value == nullptr) {  // threads of a kernel may write the same marks
    for (size_t i = 0; i < bytes; ++i)
      std::atomic_ref(marks[i]).store(1, std::memory_order_relaxed);
    return;
  }
  const auto* const first = static_cast<const unsigned char*>(value);
  const unsigned char* const end = first + bytes;
  for (const unsigned char* byte = first; byte != end; ++byte) {
    byte =
        static_cast<const unsigned char*>(std::memchr(byte, 0xff, static_cast<size_t>(end - byte)));
    if (byte == nullptr) return;
    std::atomic_ref(marks[byte - first]).store(1, std::memory_order_relaxed);
  }
}

void note_all_written(const void* p) {
  const Buffer* buffer = buffer_at(p);
  if (buffer != nullptr && buffer->written != nullptr) buffer->written.get()[buffer->bytes] = 1;
}

bool is_uninitialized(const void* p, size_t bytes) {
  const Buffer* buffer = buffer_at(p);
  if (buffer == nullptr || buffer->written == nullptr) return false;
  if (buffer->written.get()[buffer->bytes] != 0) return false;
  const size_t at = number(p) - number(buffer->memory);
  if (bytes > buffer->bytes - at) return false;
  for (size_t i = at; i < at + bytes; ++i) {
    if (static_cast<const unsigned char*>(buffer->memory)[i] != 0xff ||
        std::atomic_ref(buffer->written.get()[i]).load(std::memory_order_relaxed) != 0)
      return false;
  }
  return true;
}

uint32_t running_static_bytes() { return static_bytes_of_launch; }

int* grid_barrier() { return &grid_arrivals; }

void* device_malloc(size_t bytes) {
  (void)bytes;
  throw KernelStop{cudaErrorLaunchFailure, "malloc in a kernel is not supported"};
}
void device_free(void*) {
  throw KernelStop{cudaErrorLaunchFailure, "free in a kernel is not supported"};
}

}  // namespace emucuda

using namespace emucuda;

// NOLINTBEGIN(bugprone-reserved-identifier): these are the names that clang calls
extern "C" {

// ---- registration: by the device code, and by what clang makes of the host code ----

void emucuda_register_kernel(int unit, const char* symbol, void (*thunk)(void**),
                             int64_t static_bytes, const char* where, const char* parameters,
                             const char* parameter_bytes, const char* cluster, int narrowest,
                             int async_proxy) {
  const std::lock_guard lock(state().mutex);
  Kernel& kernel = state().kernels[{unit, symbol}];
  kernel.symbol = symbol;
  kernel.thunk = thunk;
  kernel.static_bytes = static_cast<uint32_t>(static_bytes);
  kernel.narrowest = narrowest;
  kernel.async_proxy = async_proxy != 0;
  kernel.where = where;
  kernel.most_dynamic = kDefaultShared - std::min<size_t>(kDefaultShared, kernel.static_bytes);
  const std::vector<std::string> types = parameter_types(symbol);
  std::istringstream names(parameters);
  for (std::string name; std::getline(names, name, ',');) {
    const size_t i = kernel.parameters.size();
    kernel.parameters.push_back(name);
    const bool pointer = i < types.size() && types[i].find('*') != std::string::npos;
    kernel.element_bytes.push_back(pointer ? element_bytes_of(types[i]) : 0);
  }
  std::istringstream(cluster) >> kernel.cluster.x >> kernel.cluster.y >> kernel.cluster.z;
  std::istringstream sizes(parameter_bytes);
  for (size_t size = 0; sizes >> size;) kernel.parameter_bytes.push_back(size);
}
void emucuda_register_variable(int unit, const char* symbol, void* memory, int64_t bytes,
                               int constant) {
  const std::lock_guard lock(state().mutex);
  const auto size = static_cast<size_t>(bytes);
  state().variables[{unit, symbol}] = {memory, size, constant != 0};
  if (constant != 0) {
    state().constants.emplace_back(number(memory), number(memory) + size);
    constants_begin = std::min(constants_begin, number(memory));
    constants_end = std::max(constants_end, number(memory) + size);
  } else {
    state().globals.push_back(std::make_unique<fa::simt::RegisteredBuffer>(memory, size, symbol));
  }
}
void emucuda_register_inlined(const char* file) {
  const std::lock_guard lock(state().mutex);
  state().inlined.insert(file);
}
// In place of a GPU's code, emucuda gives clang a text with the file's number.
void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {
    int magic, version;
    const char* text;
  };
  auto* unit = new int(std::atoi(static_cast<Wrapper*>(wrapper)->text));
  return reinterpret_cast<void**>(unit);  // the other functions of registration get it
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
int __cudaRegisterFunction(void** unit, const char* stub, char*, const char* symbol, int, void*,
                           void*, void*, void*, int*) {
  const std::lock_guard lock(state().mutex);
  const auto kernel = state().kernels.find(symbol_of(unit, symbol));
  if (kernel != state().kernels.end()) state().stubs[stub] = &kernel->second;
  return kNoError;
}
void __cudaRegisterVar(void** unit, char* shadow, char*, const char* symbol, int, size_t, int,
                       int) {
  const std::lock_guard lock(state().mutex);
  state().symbols[shadow] = symbol_of(unit, symbol);
}

unsigned __cudaPushCallConfiguration(fa::Dim3 grid, fa::Dim3 block, size_t shared_bytes,
                                     void* stream) {
  calls.push_back({grid, block, shared_bytes, stream});
  return 0;
}
int __cudaPopCallConfiguration(fa::Dim3* grid, fa::Dim3* block, size_t* shared_bytes,
                               void** stream) {
  const Call call = calls.back();
  calls.pop_back();
  *grid = call.grid;
  *block = call.block;
  *shared_bytes = call.shared_bytes;
  *stream = call.stream;
  return 0;
}
int cudaLaunchKernel(const void* kernel, fa::Dim3 grid, fa::Dim3 block, void** arguments,
                     size_t shared_bytes, void*) {
  return launch(kernel, {grid, block, shared_bytes}, arguments);
}
int cudaLaunchCooperativeKernel(const void* kernel, fa::Dim3 grid, fa::Dim3 block, void** arguments,
                                size_t shared_bytes, void*) {
  return launch(kernel, {grid, block, shared_bytes}, arguments);
}
struct LaunchAttribute {
  int id;
  union {
    char pad[64];
    int cluster[3];
  } value;
};
struct LaunchConfiguration {
  fa::Dim3 grid, block;
  size_t shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
int cudaLaunchKernelExC(const LaunchConfiguration* config, const void* kernel, void** arguments) {
  fa::LaunchConfig launch_config{config->grid, config->block, config->shared_bytes};
  for (unsigned i = 0; i < config->count; ++i) {
    if (config->attributes[i].id == 4) {
      const int* cluster = config->attributes[i].value.cluster;
      launch_config.cluster = {cluster[0], cluster[1], cluster[2]};
    }
  }
  return launch(kernel, launch_config, arguments);
}

// ---- memory ----

int cudaMalloc(void** pointer, size_t bytes) { return allocate(pointer, bytes); }
int cudaMallocAsync(void** pointer, size_t bytes, void*) { return allocate(pointer, bytes); }
int cudaMallocHost(void** pointer, size_t bytes) { return allocate(pointer, bytes, true); }
int cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return allocate(pointer, bytes, true); }
int cudaMallocManaged(void** pointer, size_t bytes, unsigned) {
  return allocate(pointer, bytes, true);
}
int cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(pointer, *pitch * height);
}
int cudaFree(void* pointer) { return sticky() != 0 ? fail(sticky()) : release(pointer); }
int cudaFreeAsync(void* pointer, void*) { return release(pointer); }
int cudaFreeHost(void* pointer) { return release(pointer); }
int cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  const std::lock_guard lock(state().mutex);
  Buffer buffer;
  buffer.memory = pointer;
  buffer.bytes = bytes;
  buffer.owned = false;
  keep(std::move(buffer));
  return kNoError;
}
int cudaHostUnregister(void* pointer) { return release(pointer); }
int cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return kNoError;
}
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return copy(to, from, bytes, kind);
}
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void*) {
  return copy(to, from, bytes, kind);
}
int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                 size_t height, int kind) {
  for (size_t row = 0; row < height; ++row) {
    const int error = copy(static_cast<char*>(to) + row * to_pitch,
                           static_cast<const char*>(from) + row * from_pitch, width, kind);
    if (error != kNoError) return error;
  }
  return kNoError;
}
int cudaMemset(void* to, int value, size_t bytes) {
  if (sticky() != 0) return fail(sticky());
  const std::lock_guard lock(state().mutex);
  if (bytes == 0) return kNoError;
  if (!fits(to, bytes, true)) return fail(kInvalidValue);
  Buffer* buffer = state().once ? buffer_at(to) : nullptr;
  const bool whole = buffer != nullptr && buffer->memory == to;
  // A main that measures may do this before each launch. If --once skips the launch, the buffer
  // keeps what that launch has left there.
  if (whole && buffer->last_fill.value == value && buffer->last_fill.bytes == bytes &&
      buffer->to_do.bytes <= bytes) {
    buffer->epoch = buffer->last_fill.epoch;
    buffer->to_do = buffer->last_fill;
    return kNoError;
  }
  note_host_use(to);
  if (static_cast<unsigned char>(value) == 0xff) note_written(to, bytes, nullptr);
  std::memset(to, value, bytes);
  if (whole && !buffer->host_sees) buffer->last_fill = {value, bytes, buffer->epoch};
  return kNoError;
}
int cudaMemsetAsync(void* to, int value, size_t bytes, void*) {
  return cudaMemset(to, value, bytes);
}
void emucudaHostUses(const void* buffer) {
  const std::lock_guard lock(state().mutex);
  note_host_use(buffer);
  note_all_written(buffer);
}
int cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(state().mutex);
  *total = kMemory;
  *free = kMemory - std::min(kMemory, state().allocated + (size_t{1} << 30));
  return kNoError;
}
int cudaMemPrefetchAsync(const void*, size_t, int, void*) { return kNoError; }
int cudaMemAdvise(const void*, size_t, int, int) { return kNoError; }

static Variable* variable_of(const void* shadow) {
  const auto symbol = state().symbols.find(shadow);
  if (symbol == state().symbols.end()) return nullptr;
  const auto variable = state().variables.find(symbol->second);
  return variable == state().variables.end() ? nullptr : &variable->second;
}
int emucudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset) {
  const std::lock_guard lock(state().mutex);
  const Variable* variable = variable_of(symbol);
  if (variable == nullptr) return fail(kInvalidSymbol);
  if (offset + bytes > variable->bytes) return fail(kInvalidValue);
  std::memcpy(static_cast<char*>(variable->memory) + offset, from, bytes);
  note_host_use(variable->memory);
  return kNoError;
}
int emucudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset) {
  const std::lock_guard lock(state().mutex);
  const Variable* variable = variable_of(symbol);
  if (variable == nullptr) return fail(kInvalidSymbol);
  if (offset + bytes > variable->bytes) return fail(kInvalidValue);
  std::memcpy(to, static_cast<const char*>(variable->memory) + offset, bytes);
  note_host_use(variable->memory);
  return kNoError;
}
int emucudaGetSymbolAddress(void** pointer, const void* symbol) {
  const Variable* variable = variable_of(symbol);
  if (variable == nullptr) return fail(kInvalidSymbol);
  *pointer = variable->memory;
  return kNoError;
}
int emucudaGetSymbolSize(size_t* bytes, const void* symbol) {
  const Variable* variable = variable_of(symbol);
  if (variable == nullptr) return fail(kInvalidSymbol);
  *bytes = variable->bytes;
  return kNoError;
}

// ---- errors, the device ----

int cudaGetLastError() {
  const int error = state().last_error != 0 ? state().last_error : sticky();
  state().last_error = 0;
  return error;
}
int cudaPeekAtLastError() { return state().last_error != 0 ? state().last_error : sticky(); }
int cudaDeviceSynchronize() { return sticky() != 0 ? fail(sticky()) : kNoError; }
int cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
int cudaDeviceReset() { return kNoError; }
const char* cudaGetErrorString(int error) {
  switch (error) {
#define EMUCUDA_CASE(name, value, text) \
  case value:                           \
    return text;
    EMUCUDA_ERRORS(EMUCUDA_CASE)
#undef EMUCUDA_CASE
    default:
      return "unrecognized error code";
  }
}
const char* cudaGetErrorName(int error) {
  switch (error) {
#define EMUCUDA_CASE(name, value, text) \
  case value:                           \
    return #name;
    EMUCUDA_ERRORS(EMUCUDA_CASE)
#undef EMUCUDA_CASE
    default:
      return "unrecognized error code";
  }
}
int cudaGetDevice(int* device) {
  *device = 0;
  return kNoError;
}
int cudaSetDevice(int device) { return device == 0 ? kNoError : fail(kInvalidDevice); }
int cudaSetDeviceFlags(unsigned) { return kNoError; }
int cudaGetDeviceCount(int* count) {
  *count = 1;
  return kNoError;
}
int cudaDeviceSetLimit(int, size_t) { return kNoError; }
int cudaDeviceSetCacheConfig(int) { return kNoError; }
int cudaDeviceSetSharedMemConfig(int) { return kNoError; }
int cudaDriverGetVersion(int* version) {
  *version = 12030;
  return kNoError;
}
int cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

int cudaStreamCreate(void** stream) {
  *stream = std::malloc(1);
  return kNoError;
}
int cudaStreamCreateWithFlags(void** stream, unsigned) { return cudaStreamCreate(stream); }
int cudaStreamCreateWithPriority(void** stream, unsigned, int) { return cudaStreamCreate(stream); }
int cudaStreamDestroy(void* stream) {
  if (stream == nullptr) return fail(kInvalidHandle);
  std::free(stream);
  return kNoError;
}
int cudaStreamSynchronize(void*) { return cudaDeviceSynchronize(); }
int cudaStreamQuery(void*) { return cudaDeviceSynchronize(); }
int cudaStreamWaitEvent(void*, void*, unsigned) { return kNoError; }

using Clock = std::chrono::steady_clock;
int cudaEventCreate(void** event) {
  *event = new Clock::time_point{};
  return kNoError;
}
int cudaEventCreateWithFlags(void** event, unsigned) { return cudaEventCreate(event); }
int cudaEventDestroy(void* event) {
  delete static_cast<Clock::time_point*>(event);
  return kNoError;
}
int cudaEventRecord(void* event, void*) {
  if (event == nullptr) return fail(kInvalidHandle);
  *static_cast<Clock::time_point*>(event) = Clock::now();
  return kNoError;
}
int cudaEventSynchronize(void*) { return cudaDeviceSynchronize(); }
int cudaEventQuery(void*) { return kNoError; }
int cudaEventElapsedTime(float* ms, void* from, void* to) {
  const auto time = *static_cast<Clock::time_point*>(to) - *static_cast<Clock::time_point*>(from);
  *ms = std::max(1e-3f, std::chrono::duration<float, std::milli>(time).count());
  return kNoError;
}
int cudaProfilerStart() { return kNoError; }
int cudaProfilerStop() { return kNoError; }

int emucudaFuncSetAttribute(const void* stub, int attribute, int value) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().stubs.find(stub);
  if (found == state().stubs.end()) return fail(kInvalidFunction);
  if (attribute != 8) return kNoError;
  if (value < 0 || static_cast<size_t>(value) + found->second->static_bytes > kMostShared)
    return fail(kInvalidValue);
  found->second->most_dynamic = static_cast<size_t>(value);
  return kNoError;
}
int emucudaOccupancy(int* blocks, const void* stub, int threads, size_t shared_bytes) {
  const auto found = state().stubs.find(stub);
  if (found == state().stubs.end()) return fail(kInvalidFunction);
  if (threads < 1) return fail(kInvalidValue);
  const size_t shared = shared_bytes + found->second->static_bytes + 1024;
  *blocks = threads > 1024
                ? 0
                : static_cast<int>(std::min<size_t>(
                      {32, 2048u / static_cast<unsigned>(threads), 228 * 1024 / shared}));
  return kNoError;
}
int cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return fail(kInvalidDevice);
  cudaDeviceProp all = {};
  std::strcpy(all.name, "emucuda (an H200's limits)");
  all.totalGlobalMem = kMemory;
  all.sharedMemPerBlock = kDefaultShared;
  all.regsPerBlock = all.regsPerMultiprocessor = 65536;
  all.warpSize = 32;
  all.maxThreadsPerBlock = 1024;
  all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
  all.maxThreadsDim[2] = 64;
  all.maxGridSize[0] = 2147483647;
  all.maxGridSize[1] = all.maxGridSize[2] = 65535;
  all.clockRate = 1980000;
  all.totalConstMem = 65536;
  all.major = 9;
  all.multiProcessorCount = 132;
  all.memoryClockRate = 3201000;
  all.memoryBusWidth = 6144;
  all.l2CacheSize = 60 << 20;
  all.maxThreadsPerMultiProcessor = 2048;
  all.maxBlocksPerMultiProcessor = 32;
  all.sharedMemPerMultiprocessor = 228 * 1024;
  all.sharedMemPerBlockOptin = kMostShared;
  all.reservedSharedMemPerBlock = 1024;
  all.concurrentKernels = all.canMapHostMemory = all.unifiedAddressing = 1;
  all.managedMemory = all.concurrentManagedAccess = all.cooperativeLaunch = 1;
  all.singleToDoublePrecisionPerfRatio = 2;
  all.memPitch = 2147483647;
  all.textureAlignment = 512;
  *properties = all;
  return kNoError;
}
int cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp all;
  if (const int error = cudaGetDeviceProperties(&all, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = all.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(all.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrClockRate:
      *value = all.clockRate;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = all.multiProcessorCount;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = all.memoryClockRate;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = all.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      *value = all.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = all.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = all.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(all.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = 65536;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(kMostShared);
      break;
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrCooperativeLaunch:
      *value = 1;
      break;
    default:
      *value = 0;
      break;
  }
  return kNoError;
}
int emucudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  const auto found = state().stubs.find(stub);
  if (found == state().stubs.end()) return fail(kInvalidFunction);
  *attributes = {};
  attributes->sharedSizeBytes = found->second->static_bytes;
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 80;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(found->second->most_dynamic);
  return kNoError;
}
}
// NOLINTEND(bugprone-reserved-identifier)

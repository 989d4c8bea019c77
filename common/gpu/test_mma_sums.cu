// Compares the sums of the emulator's mma and wgmma with those of a GPU, bit for bit. Tiles with
// operands of thirteen kinds run on both.
//
//   test_mma_sums [SEED [TILES]]      TILES of each kind and type; without a GPU of sm_90 it prints
//                                     that and exits with status 77
//     --against-emulator              runs the emulator twice, as a test of this program itself
//     --save DIRECTORY                writes the card's results, one file per type
//     --replay DIRECTORY              reads the card's results from there, so it needs no GPU
//     --csv FILE --vectors FILE       writes the table; writes a few sums of each type and kind

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/fp8.hpp"
#include "common/gpu/runtime.hpp"
#include "common/gpu/test_mma_sums.hpp"
#include "common/half.hpp"
#include "common/simt/buffer.hpp"
#include "common/simt/simt.hpp"

void run_on_emulator(const fa::SumsTask& task);

namespace {

using fa::SumsOf;

constexpr int kSkipped = 77;
constexpr int kSums = fa::kSumsRows * fa::kSumsColumns;
constexpr int kVectors = 4;  // tiles per type and kind that --vectors writes

struct Format {
  const char* name;
  SumsOf what;
  int bytes, exponent_bits, mantissa_bits, bias;  // exponent_bits is 0 for an integer
  int min_exponent() const { return 1 - bias; }   // smallest exponent of a normal number
  int max_exponent() const { return bytes == 1 ? 8 : (1 << exponent_bits) - 2 - bias; }
  int factors() const { return fa::kSumsRowBytes / bytes; }
};
constexpr Format kFormats[] = {
    {"mma.m16n8k16 bf16", SumsOf::mma_bf16, 2, 8, 7, 127},
    {"mma.m16n8k16 fp16", SumsOf::mma_fp16, 2, 5, 10, 15},
    {"mma.m16n8k32 s8", SumsOf::mma_s8, 1, 0, 0, 0},
    {"wgmma bf16", SumsOf::wgmma_bf16, 2, 8, 7, 127},
    {"wgmma fp16", SumsOf::wgmma_fp16, 2, 5, 10, 15},
    {"wgmma e4m3", SumsOf::wgmma_e4m3, 1, 4, 3, 7},
};

enum Kind {
  normal,
  no_c,
  any,
  near,
  spread,
  subnormal,
  largest,
  cancelling,
  special,
  zeros,
  few,
  hidden,
  tiny
};
constexpr const char* kKinds[] = {"normal",        "normal, c = 0", "any bits",  "near exponents",
                                  "far exponents", "subnormal",     "largest",   "cancelling",
                                  "Inf and NaN",   "zeros",         "few terms", "0 times large",
                                  "below 2^-126"};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t bits() {  // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>((z ^ z >> 31) >> 32);
  }
  int between(int least, int most) {
    return least + static_cast<int>(bits() % static_cast<uint32_t>(most - least + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }
  float gaussian() {  // approximately normal, because it is the sum of twelve uniform numbers
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(bits() >> 8) * 0x1p-24f;
    return sum;
  }

 private:
  uint64_t state_;
};

// Returns the code of a factor, or of an accumulator with a mantissa of 23 bits.
struct Number {
  int exponent_bits, mantissa_bits, bias;
  uint32_t code(bool negative, int exponent, uint32_t mantissa) const {  // smaller exponents give a
                                                                         // subnormal number or 0
    mantissa &= (1u << mantissa_bits) - 1;
    uint32_t biased = 0;
    if (exponent >= 1 - bias) {
      biased = static_cast<uint32_t>(exponent + bias);
    } else {
      const int shift = 1 - bias - exponent;
      mantissa = shift > mantissa_bits ? 0 : (mantissa | 1u << mantissa_bits) >> shift;
    }
    return static_cast<uint32_t>(negative) << (exponent_bits + mantissa_bits) |
           biased << mantissa_bits | mantissa;
  }
};
constexpr Number kFp32 = {8, 23, 127};

uint32_t factor_of(const Format& format, float value) {
  if (format.what == SumsOf::mma_bf16 || format.what == SumsOf::wgmma_bf16)
    return fa::to_bf16(value).bits;
  if (format.bytes == 2) return fa::to_fp16(value).bits;
  return fa::to_e4m3(value).bits;
}

uint32_t factor(const Format& format, Kind kind, bool of_b, int k, Random& random) {
  const Number number = {format.exponent_bits, format.mantissa_bits, format.bias};
  const int least = format.min_exponent(), most = format.max_exponent();
  const bool negative = random.chance(50);
  const uint32_t mantissa = random.bits();
  const bool wide = format.exponent_bits == 8;
  const auto finite = [&](int exponent) {
    uint32_t code = number.code(negative, exponent, mantissa);
    if (format.bytes == 1 && (code & 0x7f) == 0x7f) code &= ~1u;
    return code;
  };
  switch (kind) {
    case normal:
    case no_c:
      return factor_of(format, random.gaussian());
    case any:
      return finite(random.between(least - format.mantissa_bits, most));
    case near:
    case cancelling:
      return finite(random.between(-2, 2));
    case spread:
      return finite(random.between(std::max(-12, least - 3), std::min(12, most)));
    case subnormal:
      if (wide && random.chance(70)) return finite(random.between(-75, -60));
      return random.chance(60) || of_b ? finite(random.between(least - format.mantissa_bits, least))
                                       : finite(random.between(-8, 2));
    case largest:
      if (wide && random.chance(40)) return finite(random.between(60, 67));
      return finite(random.between(most - 2, most));
    case special: {
      if (!random.chance(2)) return factor_of(format, random.gaussian());
      if (random.chance(30)) return number.code(negative, least - 100, 0);
      if (format.bytes == 1) return negative ? 0xffu : 0x7fu;
      const uint32_t inf = number.code(negative, most + 1, 0);
      return random.chance(60) ? inf : inf | (mantissa & ((1u << format.mantissa_bits) - 1));
    }
    case zeros:
      if (random.chance(60)) return number.code(negative, least - 100, 0);
      return finite(random.between(std::max(least, -40), std::min(most, 40)));
    case few:
      if (random.chance(65)) return number.code(negative, least - 100, 0);
      return finite(random.between(std::max(least, -8), std::min(most, 8)));
    case hidden:  // two of four products are zero, although one of their factors is large
      if (k % 2 == 1) return finite(random.between(std::max(least, -10), std::min(most, 4)));
      if ((k % 4 == 0) == of_b) return number.code(negative, least - 100, 0);
      return finite(most);
    case tiny:  // bf16 products near the smallest fp32 subnormal; products of other types are
                // larger
      return finite(wide ? random.between(-72, -64)
                         : random.between(least - format.mantissa_bits, least));
  }
  return 0;
}

uint32_t accumulator(const Format& format, Kind kind, Random& random) {
  const bool negative = random.chance(50), wide = format.exponent_bits == 8;
  const uint32_t mantissa = random.bits();
  const auto finite = [&](int exponent) { return kFp32.code(negative, exponent, mantissa); };
  const int least = 2 * format.min_exponent(), most = 2 * format.max_exponent();
  switch (kind) {
    case normal:
      return finite(random.between(-3, 4));
    case no_c:
    case tiny:
      return 0;
    case any:
      return finite(random.between(-126 - 23, 127));
    case near:
      return finite(random.between(-6, 8));
    case cancelling:
      return random.chance(50) ? 0 : finite(random.between(-40, 10));
    case spread:
      return finite(random.between(-28, 28));
    case subnormal:
      if (random.chance(30)) return 0;
      return finite(wide ? random.between(-126 - 23, -118)
                         : random.between(least - 20, least + 30));
    case largest:
      return finite(wide ? random.between(120, 127) : random.between(most - 30, most + 4));
    case special:
      if (!random.chance(2)) return finite(random.between(-3, 4));
      return random.chance(50) ? kFp32.code(negative, 128, 0) : kFp32.code(negative, 128, mantissa);
    case zeros:
      if (random.chance(60)) return kFp32.code(negative, -1000, 0);
      return finite(random.chance(50) ? random.between(-149, -120) : random.between(-80, 80));
    case few:
    case hidden:
      if (random.chance(30)) return kFp32.code(negative, -1000, 0);
      return finite(random.between(-16, 16));
  }
  return 0;
}

struct Tiles {
  int count = 0;
  std::vector<unsigned char> A, B;
  std::vector<uint32_t> C, D;  // D is the result of a card or of the emulator
};

// Makes `each` tiles of each kind, so that tile t is of kind t % kinds.
Tiles make_tiles(const Format& format, int each, uint64_t seed) {
  const int kinds = static_cast<int>(std::size(kKinds));
  Tiles tiles;
  tiles.count = each * kinds;
  const auto count = static_cast<size_t>(tiles.count);
  Random random(seed * 1000003 + static_cast<uint64_t>(format.what));
  const auto put = [&](std::vector<unsigned char>& to, uint32_t code) {
    to.push_back(static_cast<unsigned char>(code));
    if (format.bytes == 2) to.push_back(static_cast<unsigned char>(code >> 8));
  };
  const int factors = format.factors();
  for (size_t tile = 0; tile < count; ++tile) {
    const Kind kind = static_cast<Kind>(tile % static_cast<size_t>(kinds));
    for (int part = 0; part < 2; ++part) {
      for (int row = 0; row < (part == 0 ? fa::kSumsRows : fa::kSumsColumns); ++row) {
        std::vector<uint32_t> codes;
        for (int k = 0; k < factors; ++k) {
          if (format.exponent_bits == 0) {
            codes.push_back(kind == largest ? random.chance(50) ? 0x80 : 0x7f
                                            : random.bits() & 0xff);
          } else if (kind == cancelling && k >= factors / 2) {  // cancels everything except a few
                                                                // low bits
            const uint32_t sign = part == 0 ? 1u << (8 * format.bytes - 1) : 0;
            const uint32_t flip = random.chance(8) ? 1u : 0;
            codes.push_back(codes[static_cast<size_t>(k - factors / 2)] ^ sign ^ flip);
          } else {
            codes.push_back(factor(format, kind, part == 1, k, random));
          }
        }
        for (const uint32_t code : codes) put(part == 0 ? tiles.A : tiles.B, code);
      }
    }
    for (int i = 0; i < kSums; ++i)
      tiles.C.push_back(format.exponent_bits == 0 ? random.bits()
                                                  : accumulator(format, kind, random));
  }
  tiles.D.assign(count * kSums, 0xeeeeeeee);
  return tiles;
}

void run(const Format& format, Tiles& tiles, bool emulate) {
  const size_t bytes[] = {tiles.A.size(), tiles.B.size(), tiles.C.size() * 4, tiles.D.size() * 4};
  const void* const from[] = {tiles.A.data(), tiles.B.data(), tiles.C.data(), tiles.D.data()};
  std::vector<std::unique_ptr<fa::simt::Buffer<unsigned char>>> host;
  std::vector<std::unique_ptr<fa::GpuBuffer>> device;
  void* at[4];
  for (int i = 0; i < 4; ++i) {
    if (emulate) {
      host.push_back(std::make_unique<fa::simt::Buffer<unsigned char>>(bytes[i], "memory"));
      at[i] = host.back()->data();
      std::memcpy(at[i], from[i], bytes[i]);
    } else {
      device.push_back(std::make_unique<fa::GpuBuffer>(bytes[i], "memory"));
      at[i] = device.back()->data();
      device.back()->upload(from[i]);
    }
  }
  const fa::SumsTask task{format.what, tiles.count, at[0], at[1], at[2], at[3]};
  if (emulate) {
    const fa::simt::Report report = fa::simt::run({}, [&] { run_on_emulator(task); });
    if (!report.hazards.empty()) throw std::runtime_error(report.hazards.front().text);
    std::memcpy(tiles.D.data(), at[3], bytes[3]);
  } else {
    gpu::mma_sums::run(task);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
    device[3]->download(tiles.D.data());
  }
}

// Returns "c d a0 a1 ... b0 b1 ..." in hexadecimal.
std::string vector_text(const Format& format, const Tiles& tiles, size_t sum) {
  const size_t tile = sum / kSums, row = sum % kSums / fa::kSumsColumns,
               column = sum % fa::kSumsColumns;
  char text[32];
  std::snprintf(text, sizeof text, "%08x %08x ", tiles.C[sum], tiles.D[sum]);
  std::string line = text;
  for (int part = 0; part < 2; ++part) {
    const unsigned char* const from =
        part == 0 ? &tiles.A[(tile * fa::kSumsRows + row) * fa::kSumsRowBytes]
                  : &tiles.B[(tile * fa::kSumsColumns + column) * fa::kSumsRowBytes];
    if (part == 1) line += " ";
    for (int k = 0; k < format.factors(); ++k) {
      for (int byte = format.bytes; byte-- > 0;) {
        std::snprintf(text, sizeof text, "%02x", from[k * format.bytes + byte]);
        line += text;
      }
    }
  }
  return line;
}

struct Options {
  uint64_t seed = 1;
  int tiles = 20;
  bool against_emulator = false;
  std::string save, replay, csv, vectors;
};

std::string file_of(const std::string& directory, const Format& format) {
  std::string name = format.name;
  for (char& c : name)
    if (c == ' ' || c == '.') c = '_';
  return directory + "/" + name + ".bin";
}

int compare_all(const Options& options) {
  int64_t different = 0;
  const bool on_gpu = !options.against_emulator && options.replay.empty();
  std::ofstream csv, vectors;
  if (!options.csv.empty()) csv.open(options.csv);
  if (!options.vectors.empty()) vectors.open(options.vectors);
  if (csv.is_open()) csv << "instruction,operands,sums,equal\n";
  for (const Format& format : kFormats) {
    Tiles card = make_tiles(format, options.tiles, options.seed), emulator = card;
    const auto bytes = static_cast<std::streamsize>(card.D.size() * 4);
    if (!options.replay.empty()) {
      std::ifstream in(file_of(options.replay, format), std::ios::binary);
      if (!in.read(reinterpret_cast<char*>(card.D.data()), bytes))
        throw std::runtime_error("cannot read " + file_of(options.replay, format));
    } else {
      run(format, card, !on_gpu);
    }
    if (!options.save.empty()) {
      std::ofstream out(file_of(options.save, format), std::ios::binary);
      out.write(reinterpret_cast<const char*>(card.D.data()), bytes);
    }
    run(format, emulator, true);
    const size_t kinds = format.exponent_bits == 0 ? 1 : std::size(kKinds);
    for (size_t kind = 0; kind < kinds; ++kind) {
      int64_t sums = 0, equal = 0;
      std::string first;
      int kept = 0;
      for (size_t i = 0; i < card.D.size(); ++i) {
        if (kinds > 1 && i / kSums % kinds != kind) continue;
        ++sums;
        if (card.D[i] == emulator.D[i]) {
          ++equal;
        } else if (first.empty()) {
          char text[64];
          std::snprintf(text, sizeof text, "card %08x, emulator %08x: ", card.D[i], emulator.D[i]);
          first = text + vector_text(format, card, i);
        }
        if (vectors.is_open() && kept < kVectors && i % kSums == static_cast<size_t>(kept) * 137) {
          vectors << format.name << ": " << vector_text(format, card, i) << "\n";
          ++kept;
        }
      }
      const char* const name = kinds == 1 ? "any bits" : kKinds[kind];
      std::printf("%-18s %-15s %8lld of %8lld sums are equal\n", format.name, name,
                  static_cast<long long>(equal), static_cast<long long>(sums));
      if (!first.empty()) std::printf("  %s\n", first.c_str());
      if (csv.is_open()) {
        csv << format.name << ",\"" << name << "\"," << sums << "," << equal << "\n";
      }
      different += sums - equal;
    }
  }
  std::printf("%lld sums differ, on %s\n", static_cast<long long>(different),
              on_gpu                   ? fa::gpu_name().c_str()
              : options.replay.empty() ? "the emulator, twice"
                                       : options.replay.c_str());
  return different == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int numbers = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--against-emulator") {
      options.against_emulator = true;
    } else if (word == "--save") {
      options.save = next();
    } else if (word == "--replay") {
      options.replay = next();
    } else if (word == "--csv") {
      options.csv = next();
    } else if (word == "--vectors") {
      options.vectors = next();
    } else if (numbers++ == 0) {
      options.seed = std::stoull(word);
    } else {
      options.tiles = std::stoi(word);
    }
  }
  if (!options.against_emulator && options.replay.empty()) {
    std::string problem = fa::gpu_problem();
    if (problem.empty() && fa::gpu_capability() != 90) {
      problem = "the GPU " + fa::gpu_name() + " is sm_" + std::to_string(fa::gpu_capability()) +
                ", and wgmma needs sm_90";
    }
    if (!problem.empty()) {
      std::printf("skipped: %s\n", problem.c_str());
      return kSkipped;
    }
  }
  try {
    return compare_all(options);
  } catch (const std::exception& error) {
    std::printf("FAIL: %s\n", error.what());
    return 1;
  }
}

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/file.hpp"
#include "common/npy.hpp"

using namespace fa;

namespace {

// Returns a .npy file with this header dictionary and this many bytes of data.
std::string npy(const std::string& dictionary, size_t data_bytes, char major = 1) {
  std::string file("\x93NUMPY", 6);
  file.push_back(major);
  file.push_back(0);
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    file.push_back(static_cast<char>(dictionary.size() >> (8 * i)));
  }
  return file + dictionary + std::string(data_bytes, '\0');
}

std::string header(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string refusal(const std::string& file) {
  try {
    parse_npy(file, "x.npy");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what npy_bytes writes, parse_npy reads") {
  const std::vector<float> values = {1.5f, -2, 0, 3e38f, 1e-45f, 7};
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{6}, {2, 3}, {1, 2, 3, 1}, {6, 1}}) {
    const NpyArray array = parse_npy(npy_bytes(values, shape), "x");
    CHECK(array.type == NpyType::f32);
    CHECK(array.shape == shape);
    CHECK(array.floats() == values);
  }
  const std::vector<double> exact = {1.0 / 3, -1e300};
  const std::vector<int64_t> two = {2};
  CHECK(parse_npy(npy_bytes(exact, two), "x").doubles() == exact);
  CHECK(npy_bytes(values, two).size() % 4 == 0);
}

TEST_CASE("float16, versions 2 and 3, scalars and empty arrays") {
  std::string halves = npy(header("<f2", "False", "(2,)"), 4);
  halves[halves.size() - 3] = 0x3c;                     // 1.0
  halves[halves.size() - 1] = static_cast<char>(0xc0);  // -2.0
  CHECK(parse_npy(halves, "x").floats() == std::vector<float>{1, -2});
  std::string integers = npy(header("<i4", "False", "(2,)"), 8);
  integers[integers.size() - 7] = 1;                                   // 256
  for (size_t i = 1; i <= 4; ++i) integers[integers.size() - i] = -1;  // -1
  CHECK(parse_npy(integers, "x").type == NpyType::i32);
  CHECK(parse_npy(integers, "x").doubles() == std::vector<double>{256, -1});
  CHECK(parse_npy(npy(header("<f4", "False", "(2, 3)"), 24, 2), "x").size() == 6);
  CHECK(parse_npy(npy(header("<f4", "False", "(2, 3)"), 24, 3), "x").size() == 6);
  CHECK(parse_npy(npy(header("<f8", "False", "()"), 8), "x").size() == 1);
  CHECK(parse_npy(npy(header("<f8", "False", "(0, 5)"), 0), "x").size() == 0);
}

TEST_CASE("each way to be wrong has a sentence of its own") {
  const std::string good = header("<f4", "False", "(2, 3)");
  CHECK(refusal(npy(good, 24)) == "accepted");
  CHECK(contains(refusal(""), "is not a .npy file"));
  CHECK(contains(refusal("PK\x03\x04 a zip"), "is not a .npy file"));
  CHECK(contains(refusal(npy(good, 24).substr(0, 8)), "truncated inside its header"));
  CHECK(contains(refusal(npy(good, 24).substr(0, 40)), "truncated inside its header"));
  CHECK(contains(refusal(npy(good, 23)), "truncated: its shape needs 24 bytes of data, it has 23"));
  CHECK(contains(refusal(npy(good, 25)), "1 bytes of trailing garbage"));
  CHECK(contains(refusal(npy(good, 24, 4)), "version 4.0"));
  CHECK(contains(refusal(npy(std::string(70000, ' '), 0, 2)), "claims a header of 70000 bytes"));
  CHECK(contains(refusal(npy(header("<i8", "False", "(2, 3)"), 48)), "holds type '<i8'"));
  CHECK(contains(refusal(npy(header("|O", "False", "(2, 3)"), 48)), "holds type '|O'"));
  CHECK(contains(refusal(npy(header(">f4", "False", "(2, 3)"), 24)), "is big-endian"));
  CHECK(contains(refusal(npy(header(">i4", "False", "(2, 3)"), 24)), "x.astype('<i4')"));
  CHECK(
      contains(refusal(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4)),
               "structured type"));
  CHECK(contains(refusal(npy(header("<f4", "True", "(2, 3)"), 24)), "Fortran order"));
  CHECK(contains(refusal(npy(header("<f4", "False", "(2, -3)"), 24)), "malformed header"));
  CHECK(contains(refusal(npy(header("<f4", "Maybe", "(2, 3)"), 24)), "malformed header"));
  CHECK(contains(refusal(npy("{'descr': '<f4'}", 24)), "lacks one of"));
  CHECK(contains(refusal(npy("{'descr': '<f4', 'descr': '<f4'}", 24)), "twice"));
  CHECK(contains(refusal(npy("{'colour': '<f4'}", 24)), "unknown key"));
  CHECK(contains(refusal(npy(good + "x", 24)), "malformed header"));
  CHECK(contains(refusal(npy(header("<f4", "False", "(99999999999999999999,)"), 0)), "2^40"));
  CHECK(contains(refusal(npy(header("<f4", "False", "(1048576, 1048576, 2)"), 0)), "2^40"));
  std::string many = "(";
  for (int i = 0; i < 40; ++i) many += "1, ";
  CHECK(contains(refusal(npy(header("<f4", "False", many + ")"), 4)), "more than 32 dimensions"));
}

TEST_CASE("one list of the types that are accepted, by each reader's") {
  const auto message = [](const std::string& descr, const NpyTypes& accepted) {
    try {
      parse_npy(npy(header(descr, "False", "(1,)"), 8), "x", accepted);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const NpyTypes floats = {NpyType::f16, NpyType::f32}, integers = {NpyType::i32};
  const std::string list = "; accepted: float16, float32";
  CHECK(message("<f8", floats) == "x: holds float64" + list);
  CHECK(message(">f8", floats) == "x: holds float64" + list);
  CHECK(message("<i4", floats) == "x: holds int32" + list);
  CHECK(message("<i8", floats) == "x: holds type '<i8'" + list);
  CHECK(message("|V2", floats) == "x: holds type '|V2'" + list + "; save bfloat16 as float32");
  CHECK(message(">f2", floats) == "x: is big-endian ('>f2'); save x.astype('<f2') instead");
  CHECK(message("<f4", integers) == "x: holds float32; accepted: int32");
  CHECK(message("<i8", kNpyTypes) ==
        "x: holds type '<i8'; accepted: float16, float32, float64, int32");
  CHECK(message(">f8", kNpyTypes) == "x: is big-endian ('>f8'); save x.astype('<f8') instead");
  CHECK(contains(message("<i4", integers), "4 bytes of trailing garbage"));  // the type is correct
}

TEST_CASE("a file is written whole or not at all") {
  const std::string directory = FA_BINARY_DIR "/test_npy_files";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  const std::string path = directory + "/out.npy";
  write_file(path, "old");
  CHECK_THROWS_AS(write_file(directory, "x"), InputError);
  CHECK_THROWS_AS(write_file(directory + "/none/out.npy", "x"), InputError);
  CHECK_THROWS_AS(read_file(directory + "/none"), InputError);
  CHECK_THROWS_AS(read_file(directory), InputError);

  const std::vector<float> values = {1, 2};
  const std::vector<int64_t> shape = {2};
  write_npy(path, values, shape);
  CHECK(read_npy(path).floats() == values);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++files;
  CHECK(files == 1);  // no temporary file is left

  // An existing file with the temporary's name belongs to the user and stays.
  const std::string theirs = path + ".partial-" + std::to_string(getpid());
  write_file(theirs, "theirs");
  CHECK_THROWS_WITH_AS(write_file(path, "x"), (theirs + ": cannot create: File exists").c_str(),
                       InputError);
  CHECK(read_file(theirs) == "theirs");
  CHECK(read_npy(path).floats() == values);
  std::filesystem::remove(theirs);

  std::filesystem::create_symlink(path, directory + "/link.npy");
  write_file(directory + "/link.npy", "through the link");
  CHECK(std::filesystem::is_symlink(directory + "/link.npy"));
  CHECK(read_file(path) == "through the link");

  write_file("/dev/null", "gone");  // written to, never replaced
  struct stat status;
  REQUIRE(stat("/dev/null", &status) == 0);
  CHECK(S_ISCHR(status.st_mode));
}

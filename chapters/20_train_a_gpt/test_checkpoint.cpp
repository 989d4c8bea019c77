// Checkpoints, with the state that they restore, files that are refused, and resumed runs with the
// same bits as uninterrupted ones.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "checkpoint.hpp"
#include "common/error.hpp"
#include "common/file.hpp"

using namespace fa::ch20;

namespace {

const std::u32string kText = U"the cat sat on the mat, the rat sat on the h\u00e4t. ";
const Recipe kSmall{{0, 8, 1, 2, 4}, 2};

// A temporary folder, removed at the end.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ch20_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return (path / name).string(); }
  std::filesystem::path path;
};

TrainingState trained(int64_t steps, TrainingState state) {
  const std::vector<int32_t> tokens = Vocabulary::of(kText).tokens(kText, "text");
  Trainer trainer(state, tokens, {"tiled", 4});
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  return state;
}

TrainingState fresh() { return start_training(kSmall, Vocabulary::of(kText), kText, 5); }

bool same(const TrainingState& a, const TrainingState& b) {
  return a.recipe == b.recipe && a.vocabulary == b.vocabulary && a.first == b.first &&
         a.text == b.text && a.seed == b.seed && a.random.state == b.random.state &&
         a.losses == b.losses && a.weights == b.weights && a.moment == b.moment &&
         a.square == b.square;
}

}  // namespace

TEST_CASE("checkpoint: all of the state comes back, and training goes on bit for bit") {
  const Folder folder;
  const std::string path = folder.file("gpt");
  const TrainingState half = trained(3, fresh());
  save_checkpoint(path, half);
  const TrainingState loaded = load_checkpoint(path);
  CHECK(same(loaded, half));
  const TrainingState whole = trained(7, fresh());
  CHECK(same(trained(4, loaded), whole));
  CHECK_FALSE(same(half, whole));
  // One file, and no temporary file next to it.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("checkpoint: cut off anywhere, or with any byte changed, it is refused") {
  const Folder folder;
  const std::string path = folder.file("gpt");
  save_checkpoint(path, trained(1, fresh()));
  const std::string bytes = fa::read_file(path);
  const std::string other = folder.file("other");
  for (size_t i = 0; i < bytes.size(); i += i < 400 ? 1 : 97) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    fa::write_file(other, changed);
    CHECK_THROWS_AS(load_checkpoint(other), fa::InputError);
    fa::write_file(other, bytes.substr(0, i));
    CHECK_THROWS_AS(load_checkpoint(other), fa::InputError);
  }
  fa::write_file(other, bytes + "x");
  CHECK_THROWS_WITH_AS(load_checkpoint(other), doctest::Contains("is damaged"), fa::InputError);
  fa::write_file(other, "PK\x03\x04 a file of something else");
  CHECK_THROWS_WITH_AS(load_checkpoint(other), doctest::Contains("is no checkpoint"),
                       fa::InputError);
  CHECK_THROWS_AS(load_checkpoint(folder.file("absent")), fa::InputError);
}

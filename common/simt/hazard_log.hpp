#pragma once
// Collects hazards, with one entry per kind and source line.

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/simt/simt.hpp"

namespace fa::simt {

/// Set by common/cuda, so that reports name a file as the compiler's command line did.
inline bool paths_as_given = false;

/// Returns the path relative to the repository's root, or the unchanged path outside it.
const char* relative_path(const char* file);

/// Returns "chapters/03_basic_kernel/attention.cuh:88".
std::string to_string(const Site& site);

/// True if both are the same line. File names are literals, so their pointers are usually equal,
/// but they may differ between translation units.
inline bool same_site(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

class HazardLog {
 public:
  /// Counts the hazard. Keeps it as the example of its line if its block has the lowest number so
  /// far. hazard.text is the description without place and kind, and is only needed if is_new()
  /// returns true.
  void add(Hazard hazard);

  /// False if there is an example from this block or a lower one, so that the caller need not make
  /// the text.
  bool is_new(HazardKind kind, const Site& where, int block) const;

  void merge(const HazardLog& other);

  /// Returns the hazards sorted by kind, file and line.
  std::vector<Hazard> hazards() const;
  bool empty() const { return found_.empty(); }

 private:
  using Key = std::tuple<HazardKind, std::string, int>;
  static Key key(HazardKind kind, const Site& where);
  std::map<Key, Hazard> found_;
};

}  // namespace fa::simt

#pragma once
// Collects hazards: one entry for each kind and source line.

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/simt/simt.hpp"

namespace fa::simt {

/// The path as seen from the repository's root, if the file is in it.
const char* relative_path(const char* file);

/// "chapters/03_basic_kernel/attention.cuh:88"
std::string to_string(const Site& site);

/// The same place? File names are literals: mostly the same pointer, but not across sources.
inline bool same_site(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

class HazardLog {
 public:
  /// Counts the hazard; keeps it as the example of its line if its block is the lowest so far.
  /// hazard.text is the finding without place and kind, and only needed when `is_new` says so.
  void add(Hazard hazard);

  /// False when an example from this block or a lower one is there already, so that the caller
  /// can leave out the text.
  bool is_new(HazardKind kind, const Site& where, int block) const;

  void merge(const HazardLog& other);

  /// Sorted by kind, file and line.
  std::vector<Hazard> hazards() const;
  bool empty() const { return found_.empty(); }

 private:
  using Key = std::tuple<HazardKind, std::string, int>;
  static Key key(HazardKind kind, const Site& where);
  std::map<Key, Hazard> found_;
};

}  // namespace fa::simt

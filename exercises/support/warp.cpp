#include "exercises/support/warp.hpp"

#include <algorithm>
#include <set>

namespace exercise {
namespace {

// "rows", but "d" stays "d".
std::string plural(const std::string& what) { return what.size() == 1 ? what : what + "s"; }

std::string range(const std::string& what, int first, int count) {
  return plural(what) + " " + std::to_string(first) + "-" + std::to_string(first + count - 1);
}

struct Place {
  int row, column;
  bool operator==(const Place&) const = default;
};

Place place(const Labels& labels, uint32_t element) {
  return {static_cast<int>(element) / labels.columns, static_cast<int>(element) % labels.columns};
}

// "row 3, columns 4 and 5" is the content of a register.
std::string pair_text(const Labels& labels, uint32_t value) {
  const uint32_t low = value & 0xFFFF, high = value >> 16;
  if (low == UNWRITTEN || high == UNWRITTEN) return "NaN, which no thread has written";
  const Place a = place(labels, low), b = place(labels, high);
  const std::string row = labels.row + " " + std::to_string(a.row);
  const std::string column = labels.column + " " + std::to_string(a.column);
  if (a.row == b.row)
    return row + ", " + plural(labels.column) + " " + std::to_string(a.column) + " and " +
           std::to_string(b.column);
  if (a.column == b.column)
    return plural(labels.row) + " " + std::to_string(a.row) + " and " + std::to_string(b.row) +
           ", " + column;
  return row + ", " + column + " and " + labels.row + " " + std::to_string(b.row) + ", " +
         labels.column + " " + std::to_string(b.column);
}

// Which 8x8 piece the warp holds in a register.
std::string piece_text(const Labels& labels, const Fragments& fragments, int r) {
  const Place corner = place(labels, fragments.values[r] & 0xFFFF);
  bool straight = true, transposed = true;
  for (int lane = 0; lane < 32; ++lane) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t element =
          fragments.values[lane * fragments.registers + r] >> 16 * half & 0xFFFF;
      if (element == UNWRITTEN)
        return "a value that no thread has written, or that is no legal address";
      const Place is = place(labels, element);
      const int along = lane / 4, across = lane % 4 * 2 + half;
      straight = straight && is == Place{corner.row + along, corner.column + across};
      transposed = transposed && is == Place{corner.row + across, corner.column + along};
    }
  }
  if (!straight && !transposed) return "pieces of several";
  return range(labels.row, corner.row, 8) + ", " + range(labels.column, corner.column, 8) +
         (transposed ? ", transposed" : "");
}

// All that a mistake must explain, which is every register, and the kinds of hazards.
std::string shown(const Fragments& fragments) {
  return hazard_kinds(fragments.report) + bytes(fragments.values);
}

}  // namespace

fa::simt::Report run_block(int threads, size_t smem_bytes, const std::function<void()>& thread,
                           const fa::simt::Config& config) {
  return fa::simt::run(config, [&] {
    emulator::launch(
        +[](const std::function<void()>* body) { (*body)(); }, 1, threads, smem_bytes, &thread);
  });
}

std::string Labels::register_name(size_t r) const {
  return array + "[" + std::to_string(r / of_each) + "][" + std::to_string(r % of_each) + "]";
}

std::vector<uint16_t> labelled_matrix(int rows, int columns) {
  std::vector<uint16_t> matrix;
  for (int i = 0; i < rows * columns; ++i) matrix.push_back(static_cast<uint16_t>(i));
  return matrix;
}

void check_fragments(const Labels& labels, const Fragments& got, const Fragments& expected,
                     const std::vector<FragmentsMistake>& mistakes, int line, const char* file) {
  size_t wrong = 0, first = 0;
  for (size_t i = got.values.size(); i-- > 0;) {
    if (got.values[i] == expected.values[i]) continue;
    ++wrong;
    first = i;
  }
  std::string message = hazards(got.report);
  if (wrong) {
    message += "lane " + std::to_string(first / got.registers) + ", " +
               labels.register_name(first % got.registers) + ": expected " +
               pair_text(labels, expected.values[first]) + "; got " +
               pair_text(labels, got.values[first]) + "\n" + std::to_string(wrong) + " of " +
               std::to_string(got.values.size()) + " registers are wrong";
  }
  int listed = 0;
  for (int r = 0; r < got.registers && listed < 4; ++r) {
    const std::string piece = piece_text(labels, got, r), right = piece_text(labels, expected, r);
    if (piece == right) continue;
    message += "\n  " + labels.register_name(r) + " holds " + piece + "; expected " + right;
    ++listed;
  }
  std::vector<Look> looks;
  for (const FragmentsMistake& mistake : mistakes)
    looks.push_back({mistake.name, shown(mistake.fragments), mistake.explanation});
  check_shown(wrong == 0 && got.report.hazards.empty(), message, shown(got), looks, line, file);
}

std::string hazard_kinds(const fa::simt::Report& report) {
  std::set<std::string> kinds;
  for (const fa::simt::Hazard& hazard : report.hazards)
    kinds.insert(fa::simt::hazard_name(hazard.kind));
  std::string all;
  for (const std::string& kind : kinds) all += kind + "\n";
  return all;
}

std::string synchronization(const fa::simt::Report& report, int turns, int most_waits,
                            int most_barriers) {
  bool commits = false;
  int waits = 0, barriers = 0;
  for (const fa::simt::Event& event : report.events) {
    if (event.warp != 0) continue;
    commits |= event.kind == fa::simt::EventKind::kCommit;
    waits += event.kind == fa::simt::EventKind::kWait;
    barriers += event.kind == fa::simt::EventKind::kBarrier;
  }
  return (commits ? "commits, " : "no commit, ") +
         std::to_string(std::min(waits / turns, most_waits)) + " waits and " +
         std::to_string(std::min(barriers / turns, most_barriers)) + " barriers a turn\n";
}

std::string hazards(const fa::simt::Report& report) {
  std::string own, others;  // those at lines of the answer first
  for (const fa::simt::Hazard& hazard : report.hazards)
    (std::string(hazard.where.file).ends_with("test.cpp") ? others : own) += hazard.text + "\n";
  return own + others;
}

bool has(const fa::simt::Report& report, fa::simt::HazardKind kind) {
  for (const fa::simt::Hazard& hazard : report.hazards) {
    if (hazard.kind == kind) return true;
  }
  return false;
}

void check_no_hazards(const fa::simt::Report& report, const std::vector<Suspect>& suspects,
                      int line, const char* file) {
  std::string found = hazards(report);
  if (!found.empty()) found.pop_back();
  check(found.empty(), "the emulator found:\n" + found, suspects, line, file);
}

std::string bank_map(const uint32_t (&addresses)[8]) {
  std::string map = "  banks  0-3  4-7  8-11 12-15 16-19 20-23 24-27 28-31\n";
  for (int row = 0; row < 8; ++row) {
    map += "  row " + std::to_string(row);
    for (uint32_t group = 0; group < 8; ++group)
      map += addresses[row] / 16 % 8 == group ? "  [#] " : "   .  ";
    map.erase(map.find_last_not_of(' ') + 1);
    if (row < 7) map += "\n";
  }
  return map;
}

}  // namespace exercise

template class std::function<void()>;
template class std::vector<uint16_t>;
template class std::vector<uint32_t>;
template class std::vector<fa::simt::Event>;
template class std::vector<fa::simt::Hazard>;
template class std::vector<fa::simt::LeaveOut>;
template class std::vector<fa::simt::Synchronization>;
template class std::vector<fa::simt::TileRow>;

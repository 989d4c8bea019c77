#include "report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/json_report.hpp"
#include "roofline.hpp"
#include "text.hpp"

namespace ch18 {
namespace {

std::string whole(double value) {
  return std::isfinite(value) ? std::to_string(std::llround(value)) : "NaN";
}

std::string size_text(std::int64_t rows, std::int64_t cols) {
  return std::to_string(rows) + " × " + std::to_string(cols);
}

std::string dataflow_name(Dataflow dataflow) {
  return dataflow == Dataflow::kWeight ? "weight" : "output";
}

constexpr double kClock = 1.5e9;  // clock of a TPU v5e: 197 TFLOP/s / (4 MXUs · 128² cells · 2
                                  // FLOP)

double milliseconds(std::int64_t cycles) { return 1000.0 * static_cast<double>(cycles) / kClock; }

}  // namespace

std::string trace_text(const MatmulRequest& request, const MatmulRun& run) {
  int rows = 0, cols = 0;
  for (const CycleStep& step : run.trace) {
    for (const CellStep& cell : step.cells) {
      rows = std::max(rows, cell.row + 1);
      cols = std::max(cols, cell.col + 1);
    }
  }
  std::vector<Row> lines{{"cycle", ""}};
  for (int col = 0; col < cols; ++col) lines[0].push_back("column " + std::to_string(col));
  for (const CycleStep& step : run.trace) {
    for (int row = 0; row < rows; ++row) {
      Row line(static_cast<std::size_t>(cols) + 2);
      line[0] = row ? "" : std::to_string(step.cycle);
      line[1] = "row " + std::to_string(row);
      for (const CellStep& cell : step.cells) {
        if (cell.row != row) continue;
        line[static_cast<std::size_t>(cell.col) + 2] =
            whole(cell.before) + " + " + cell.a + "·" + cell.b + " = " + whole(cell.after);
      }
      lines.push_back(line);
    }
  }
  std::string text = table(lines, lines[0].size());
  text += "\nA =" + std::string(request.m > 1 ? "" : " ");
  const auto matrix = [&](const Matrix<double>& numbers) {
    std::string shown;
    for (int i = 0; i < numbers.rows; ++i) {
      shown += i ? "; " : " ";
      for (int j = 0; j < numbers.cols; ++j) shown += (j ? " " : "") + whole(numbers(i, j));
    }
    return shown + "\n";
  };
  text += matrix(run.a) + "B =" + matrix(run.b) + "C =" + matrix(run.c);
  return text;
}

std::string matmul_text(const MatmulRequest& r, const MatmulRun& run) {
  std::string text =
      size_text(r.m, r.k) + " times " + size_text(r.k, r.n) + " on " +
      (r.dataflow == Dataflow::kWeight ? "a weight" : "an output") + "-stationary array of " +
      size_text(r.rows, r.cols) + ": " + count(run.tiles) + (run.tiles == 1 ? " tile" : " tiles") +
      (r.double_buffer ? "\nThe weights are double-buffered: the next ones load meanwhile." : "") +
      "\n";
  text += count(run.cycles) + (run.cycles == 1 ? " cycle" : " cycles") +
          (run.ticked ? ", counted tick by tick" : " by M + K + N - 2, not ticked");
  text += r.dataflow == Dataflow::kWeight
              ? ", after " + count(run.feed_cycles) + " to load the first weights\n"
              : ", and " + count(run.feed_cycles) + " more to shift the last results out\n";
  text += count(run.macs) + " multiplications / (" + count(r.rows * r.cols) + " cells × " +
          count(run.cycles) + " cycles) = " +
          (run.utilization < 0.001 ? fixed(100 * run.utilization, 4) + " %"
                                   : percent(run.utilization)) +
          " utilization\n";
  if (!run.ticked) return text;
  return text + (run.passed() ? "equal to the plain product\n"
                              : "WRONG: " + std::to_string(run.mismatches) + " of " +
                                    std::to_string(run.c.values.size()) + " numbers (" +
                                    std::to_string(run.nonfinite) +
                                    " NaN);\nthe first: " + run.first_bad + "\n");
}

nlohmann::json matmul_json(const MatmulRequest& r, const MatmulRun& run,
                           const std::vector<std::string>& break_names) {
  using nlohmann::json;
  json report = {{"chapter", "18_systolic_array"},
                 {"m", r.m},
                 {"k", r.k},
                 {"n", r.n},
                 {"rows", r.rows},
                 {"cols", r.cols},
                 {"dataflow", dataflow_name(r.dataflow)},
                 {"double_buffer", r.double_buffer},
                 {"breaks", break_names},
                 {"tiles", run.tiles},
                 {"cycles", run.cycles},
                 {"utilization", run.utilization},
                 {"macs", run.macs},
                 {"ticked", run.ticked},
                 {"check", nullptr}};
  if (run.ticked) {
    report["check"] = {{"passed", run.passed()},
                       {"compared", run.c.values.size()},
                       {"mismatches", run.mismatches},
                       {"nonfinite", run.nonfinite},
                       {"max_abs_error", fa::json_number(run.max_abs_error)}};
  }
  if (!r.trace) return report;
  const auto matrix = [](const Matrix<double>& numbers) {
    json rows = json::array();
    for (int i = 0; i < numbers.rows; ++i) {
      json row = json::array();
      for (int j = 0; j < numbers.cols; ++j) row.push_back(fa::json_number(numbers(i, j)));
      rows.push_back(row);
    }
    return rows;
  };
  report.update({{"a", matrix(run.a)}, {"b", matrix(run.b)}, {"c", matrix(run.c)}});
  json& trace = report["trace"] = json::array();
  for (const CycleStep& step : run.trace) {
    json cells = json::array();
    for (const CellStep& cell : step.cells) {
      cells.push_back({{"tile", cell.tile},
                       {"row", cell.row},
                       {"col", cell.col},
                       {"a", cell.a},
                       {"b", cell.b},
                       {"before", fa::json_number(cell.before)},
                       {"after", fa::json_number(cell.after)},
                       {"sum", cell.sum}});
    }
    trace.push_back({{"cycle", step.cycle}, {"cells", cells}});
  }
  return report;
}

const char* name_of(Accounting accounting) {
  constexpr const char* kNames[] = {"seed", "array", "pipelined", "overlapped"};
  return kNames[static_cast<int>(accounting)];
}

std::string attention_text(const AttentionShape& shape, Accounting accounting,
                           const Machine& machine, const AttentionCost& cost) {
  std::string text;
  const bool flash = shape.algorithm == Algorithm::kFlash;
  text += std::string(flash ? "flash" : "standard") + " attention, n = " + count(shape.n) +
          ", d = " + count(shape.dim) +
          (flash ? ", tiles of " + size_text(shape.block, shape.block) + ", " +
                       count(tiles_visited(shape)) + " visited"
                 : "") +
          (shape.causal ? ", causal" : "") + "\naccounting: " + name_of(accounting) + "\n";
  std::vector<Row> rows{{"MXU", "M", "K", "N", "times", "cycles each", "cycles"}};
  for (const MatrixWork& w : cost.matrix) {
    rows.push_back({w.name, count(w.m), count(w.k), count(w.n), count(w.times), count(w.cycles),
                    count(w.times * w.cycles)});
  }
  if (cost.drain) rows.push_back({"fill and drain, once", "", "", "", "1", "", count(cost.drain)});
  text += table(rows) + "\n";
  rows = {{"VPU", "elements", "operations", "times", "cycles\neach", "cycles"}};
  for (const VectorWork& w : cost.vector) {
    rows.push_back({folded(w.name, 28), count(w.elements), count(w.operations), count(w.times),
                    count(w.cycles), count(w.times * w.cycles)});
  }
  text += table(rows) + "\n";
  text += "MXU " + count(cost.mxu_cycles) + " cycles" +
          (machine.mxus > 1 ? " on " + count(machine.mxus) + " MXUs" : "") + ", VPU " +
          count(cost.vpu_cycles) + ": " +
          (accounting == Accounting::kOverlapped ? "at the same time " : "together ") +
          count(cost.total_cycles) + "\n";
  text += "MXU utilization " + percent(cost.utilization) + " of its cycles, " +
          percent(cost.of_total) + " of all\n";
  if (cost.busy > 1) {
    text += "this account charges an array " + count(flash ? shape.block : shape.n) +
            " wide: " + percent(cost.busy) + " of what " + size_text(machine.rows, machine.cols) +
            " cells can do, so 100 % is reported\n";
  }
  return text;
}

nlohmann::json attention_json(const AttentionShape& shape, Accounting accounting,
                              const Machine& machine, const AttentionCost& cost) {
  return {{"chapter", "18_systolic_array"},
          {"algorithm", shape.algorithm == Algorithm::kFlash ? "flash" : "standard"},
          {"n", shape.n},
          {"dim", shape.dim},
          {"block", shape.block},
          {"causal", shape.causal},
          {"accounting", name_of(accounting)},
          {"mxus", machine.mxus},
          {"lanes", machine.lanes},
          {"total_cycles", cost.total_cycles},
          {"mxu_cycles", cost.mxu_cycles},
          {"vpu_cycles", cost.vpu_cycles},
          {"utilization", cost.utilization},
          {"utilization_unbounded", cost.busy},
          {"utilization_of_total", cost.of_total}};
}

std::string assumptions_text(std::int64_t n, std::int64_t dim, bool causal) {
  struct Step {
    std::string name;
    Accounting accounting;
    Machine machine;
  };
  const std::vector<Step> steps = {
      {"seed: an array as wide as the product", Accounting::kSeed, {}},
      {"array: 128 × 128 cells, tile by tile", Accounting::kArray, {}},
      {"pipelined: weights double-buffered", Accounting::kPipelined, {}},
      {"overlapped: MXU and VPU in one bundle", Accounting::kOverlapped, {}},
      {"… and a VPU of 8 × 128 lanes", Accounting::kOverlapped, {128, 128, 1, 1024}},
      {"… and 4 MXUs", Accounting::kOverlapped, {128, 128, 4, 1024}},
      {"… and 4 vector operations at a time", Accounting::kOverlapped, {128, 128, 4, 4096}},
  };
  std::vector<Row> rows{{"cycles, and utilization\nof all cells\nin all cycles"}};
  const std::vector<std::pair<std::string, AttentionShape>> shapes = {
      {"flash,\n64", {Algorithm::kFlash, n, dim, 64, causal}},
      {"flash,\n128", {Algorithm::kFlash, n, dim, 128, causal}},
      {"standard", {Algorithm::kStandard, n, dim, 128, causal}}};
  for (const auto& [name, shape] : shapes) rows[0].insert(rows[0].end(), {name, ""});
  for (const Step& step : steps) {
    Row& row = rows.emplace_back(Row{folded(step.name, 24)});
    for (const auto& [name, shape] : shapes) {
      const AttentionCost cost = attention_cost(shape, step.accounting, step.machine);
      row.push_back(count(cost.total_cycles));
      row.push_back(percent(cost.of_total));
    }
  }
  return table(rows);
}

std::string loop_table(const LoopShape& shape) {
  std::vector<Row> rows{{"", "iter-\nations", "cycles", "DMA\nbusy", "MXU\nbusy", "VPU\nbusy",
                         "longest on the\ncritical path"}};
  const std::pair<Loop, const char*> ways[] = {{Loop::kSerial, "fori: a loop in a loop"},
                                               {Loop::kVmap, "vmap: the outer loop as a batch"},
                                               {Loop::kPallas, "pallas: a grid, loads ahead"},
                                               {Loop::kSplash, "splash: hidden tiles left out"}};
  for (const auto& [loop, name] : ways) {
    LoopModel model = attention_loop(loop, shape);
    const Schedule schedule = run_schedule(model.tasks, {1, shape.machine.mxus, 1});
    const auto share = [&](std::int64_t cycles) {
      return percent(static_cast<double>(cycles) / static_cast<double>(schedule.cycles));
    };
    const Link& longest = schedule.links.front();
    rows.push_back({folded(name, 15), count(model.iterations), count(schedule.cycles),
                    share(schedule.busy[0]), share(schedule.busy[1]), share(schedule.busy[2]),
                    longest.name + " × " + count(longest.times) + ",\n" + share(longest.cycles)});
  }
  return table(rows);
}

std::string loop_text(Loop loop, const LoopShape& shape) {
  LoopModel model = attention_loop(loop, shape);
  const Schedule schedule = run_schedule(model.tasks, {1, shape.machine.mxus, 1});
  std::string text = count(model.iterations) + " iterations, " +
                     count(static_cast<std::int64_t>(model.tasks.size())) +
                     " tasks: " + count(schedule.cycles) + " cycles\n\n";
  std::vector<Row> rows{{"cycle", "critical path, first tasks", "until the next starts"}};
  const auto& path = schedule.critical_path;
  for (std::size_t i = 0; i < path.size() && i < 6; ++i) {
    const Task& task = model.tasks[path[i]];
    const std::int64_t next =
        i + 1 < path.size() ? model.tasks[path[i + 1]].start : schedule.cycles;
    rows.push_back({count(task.start), task.name, count(next - task.start)});
  }
  text += table(rows, 0) + "\n";
  rows = {{"all of the path", "times", "cycles", "share"}};
  for (const Link& link : schedule.links) {
    rows.push_back(
        {link.name, count(link.times), count(link.cycles),
         percent(static_cast<double>(link.cycles) / static_cast<double>(schedule.cycles))});
  }
  return text + table(rows);
}

std::string loops_text() {
  std::vector<Row> rows{{"n", "fori,\nmodel", "fori,\nmeasured", "left for an\niteration",
                         "vmap,\nmodel", "and its\niterations", "vmap,\nmeasured"}};
  for (const Measured& measured : article()) {
    if (std::isnan(measured.vmap)) continue;
    const auto cycles = [&](Loop loop) {
      LoopShape shape;
      shape.n = measured.n;
      LoopModel model = attention_loop(loop, shape);
      return std::pair{run_schedule(model.tasks, {1, shape.machine.mxus, 1}).cycles,
                       model.iterations};
    };
    const auto [serial, serial_iterations] = cycles(Loop::kSerial);
    const auto [batched, batched_iterations] = cycles(Loop::kVmap);
    const double left =
        (measured.fori - milliseconds(serial)) / static_cast<double>(serial_iterations);
    rows.push_back(
        {count(measured.n), fixed(milliseconds(serial), 3) + " ms", fixed(measured.fori, 3) + " ms",
         fixed(1000 * left, 2) + " µs", fixed(milliseconds(batched), 3) + " ms",
         fixed(milliseconds(batched) + left * static_cast<double>(batched_iterations), 3) + " ms",
         fixed(measured.vmap, 3) + " ms"});
  }
  return table(rows, 0);
}

std::string roofline_text(std::int64_t dim) {
  std::vector<Row> rows{{"vendor's\nfigures", "TFLOP/s", "GB/s", "fast\nmemory", "FLOP\nper\nbyte",
                         "S fits\nup to n", "S\nthrough\nHBM", "fused\nfrom n", "tiled\nfrom b"}};
  for (const Chip& chip : chips()) {
    const Crossover c = crossover(chip, dim, 2);
    const bool large = chip.fast_bytes >= 1024 * 1024;
    rows.push_back({chip.name, fixed(chip.tflops, 0), fixed(chip.gigabytes_per_s, 0),
                    large ? fixed(chip.fast_bytes / 1048576, 0) + " MiB"
                          : fixed(chip.fast_bytes / 1024, 0) + " KiB",
                    fixed(c.ridge, 0), count(c.fits_up_to), fixed(c.unfused, 0),
                    count(c.fused_from), count(c.block_from)});
  }
  return table(rows);
}

std::string traffic_text() {
  constexpr double kBandwidth = 819e9;
  std::vector<Row> rows{{"n", "S,\nMiB", "5 dis-\npatches", "meas-\nured", "3 dis-\npatches",
                         "meas-\nured", "fused", "meas-\nured", "is as\nS through\nHBM"}};
  for (const Measured& m : article()) {
    const auto ways = traffic(m.n, 64, 4);
    const double scores = static_cast<double>(m.n) * m.n * 4;
    Row row{count(m.n), fixed(scores / 1048576, 0)};
    const double measured[] = {m.nojit, m.unfused, m.fused};
    for (std::size_t i = 0; i < ways.size(); ++i) {
      row.push_back(fixed(1000 * ways[i].bytes / kBandwidth, 3));
      row.push_back(fixed(measured[i], 3));
    }
    row.push_back(m.n < 8192 ? "-" : fixed(m.fused / 1000 * kBandwidth / scores, 1) + " times");
    rows.push_back(row);
  }
  return "milliseconds of one head, d = 64, fp32; at 819 GB/s, and measured on a TPU v5e\n\n" +
         table(rows, 0);
}

std::string inside_text(std::int64_t size) {
  const AttentionShape tile{Algorithm::kFlash, size, size, size, false};
  std::vector<Row> rows{{"one tile, d = " + count(size), "MXU", "VPU", "cycles", "utilization"}};
  const auto outside = [&](const char* name, Accounting accounting, std::int64_t lanes) {
    const AttentionCost cost = attention_cost(tile, accounting, {size, size, 1, lanes});
    const std::int64_t mxu = cost.mxu_cycles - cost.drain;  // cycles of a tile among many
    std::int64_t vpu = 0;
    for (std::size_t i = 0; i < 3; ++i) vpu += cost.vector[i].cycles;
    const std::int64_t all = accounting == Accounting::kOverlapped ? std::max(mxu, vpu) : mxu + vpu;
    rows.push_back({name, count(mxu), count(vpu), count(all),
                    percent(cost.useful_macs / (static_cast<double>(size) * size * all))});
  };
  outside("array, then 128 lanes", Accounting::kArray, 128);
  outside("array, then 1024 lanes", Accounting::kArray, 1024);
  outside("both at once, 128 lanes", Accounting::kOverlapped, 128);
  outside("both at once, 1024 lanes", Accounting::kOverlapped, 1024);
  const std::int64_t inside = inside_array_cycles(size);
  rows.push_back({"inside the array (FSA)", count(inside), "0", count(inside),
                  percent(2.0 * static_cast<double>(size) / static_cast<double>(inside))});
  return table(rows);
}

}  // namespace ch18

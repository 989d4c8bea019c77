#include "bench.hpp"

#include <ostream>

#include "common/timer.hpp"
#include "matmul.hpp"
#include "text.hpp"

namespace ch18 {

bool run_bench(std::ostream& out) {
  std::vector<Row> rows{{"512 × 128 times 128 × 128", "cycles", "ms", "million cells a second"}};
  bool right = true;
  for (const Dataflow dataflow : {Dataflow::kWeight, Dataflow::kOutput}) {
    const bool weight = dataflow == Dataflow::kWeight;
    MatmulRequest request{512, 128, 128, 128, 128, dataflow, false, 0, 1, false};
    MatmulRun run;
    const double ms = fa::time_ms([&] { run = run_matmul(request); });
    right = right && run.passed();
    rows.push_back({weight ? "weight-stationary" : "output-stationary", count(run.cycles),
                    fixed(ms, 1),
                    fixed(static_cast<double>(run.cycles) * 128 * 128 / ms / 1000, 0)});
  }
  out << table(rows) << (right ? "" : "a product is WRONG\n");
  return right;
}

}  // namespace ch18

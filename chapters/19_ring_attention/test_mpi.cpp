// Ring attention by MPI: mpirun -n P test_ch19_mpi. Every rank makes the same problem, takes its
// part, and rank 0 gathers what came of it and holds it against float64. Exit status 1 if it is
// wrong; prints a line for each schedule and mask.

#include <cstdio>
#include <limits>

#include "common/backward.hpp"
#include "common/check.hpp"
#include "mpi_transport.hpp"
#include "parts.hpp"
#include "ring.hpp"

using namespace ch19;

namespace {

constexpr float NOTHING = std::numeric_limits<float>::quiet_NaN();

// On rank 0 the whole of a tensor of which each rank has a part.
std::vector<float> gathered(Transport& transport, Layout layout, const Part& part, int64_t heads,
                            int64_t length, int64_t dim) {
  if (transport.rank() != 0) {
    transport.wait(transport.send(0, Tag::gradients, part));
    return {};
  }
  std::vector<float> whole(heads * length * dim, NOTHING);
  for (int rank = 0; rank < transport.ranks(); ++rank) {
    const auto pieces = pieces_of(layout, length, transport.ranks(), rank);
    Part theirs(heads * rows_in(pieces) * dim);
    if (rank == 0) {
      theirs = part;
    } else {
      transport.wait(transport.receive(rank, Tag::gradients, theirs));
    }
    put(whole, theirs, pieces, heads, length, dim);
  }
  return whole;
}

// True on all ranks but 0, which knows.
bool agrees(Transport& transport, Schedule schedule, const fa::Problem& problem) {
  const fa::Shape& s = problem.shape;
  const Sizes sizes{s.heads, problem.kv_heads(), s.q, s.kv, s.dim, problem.scale, problem.causal};
  const Layout layout = layout_of(schedule);
  const auto queries = pieces_of(layout, s.q, transport.ranks(), transport.rank());
  const auto keys = pieces_of(layout, s.kv, transport.ranks(), transport.rank());
  const Part q = cut(problem.q, queries, s.heads, s.q, s.dim);
  const Part k = cut(problem.k, keys, sizes.kv_heads, s.kv, s.dim);
  const Part v = cut(problem.v, keys, sizes.kv_heads, s.kv, s.dim);
  const Part d_o = cut(problem.more[0], queries, s.heads, s.q, s.dim);
  const State state = forward(transport, schedule, sizes, q, k, v);
  const Gradients g = backward(transport, schedule, sizes, q, k, v, state, d_o);
  const auto o = gathered(transport, layout, state.o, s.heads, s.q, s.dim);
  const auto lse = gathered(transport, layout, state.lse, s.heads, s.q, 1);
  const auto dq = gathered(transport, layout, g.dq, s.heads, s.q, s.dim);
  const auto dk = gathered(transport, layout, g.dk, sizes.kv_heads, s.kv, s.dim);
  const auto dv = gathered(transport, layout, g.dv, sizes.kv_heads, s.kv, s.dim);
  if (transport.rank() != 0) return true;
  const fa::CheckResult check = fa::check_output(problem, o, lse);
  const fa::GradientCheck gradients = fa::check_gradients(problem, problem.more[0], dq, dk, dv);
  std::printf("%d ranks, schedule %d%s: %s; %s\n", transport.ranks(), static_cast<int>(schedule),
              problem.causal ? ", causal" : "", fa::describe(check, s).c_str(),
              fa::describe(gradients, problem).c_str());
  return check.passed() && gradients.passed();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool right = true;
  {
    MpiTransport transport(MPI_COMM_WORLD);
    for (const bool causal : {false, true}) {
      fa::Problem problem = fa::random_problem({1, 4, 101, 130, 16}, fa::Dtype::f32, 5, 1, 2);
      problem.causal = causal;
      problem.more = {fa::random_values(fa::like_q(problem), fa::Dtype::f32, 5, 0)};
      for (const Schedule schedule :
           {Schedule::gather, Schedule::ring, Schedule::overlap, Schedule::zigzag})
        right &= agrees(transport, schedule, problem);
    }
  }
  MPI_Finalize();
  return right ? 0 : 1;
}

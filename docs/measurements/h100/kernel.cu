// A chapter's GPU kernel in a plain C function, for the races of this folder. From the root:
//   nvcc -std=c++20 -O3 -I. -gencode arch=compute_90a,code=sm_90a -Xcompiler -fPIC -shared -DNN=16
//     -DDIRECTORY='"chapters/16_maximum_on_demand/attention.hpp"' docs/measurements/h100/kernel.cu
//     common/{tensor_map,error,parse,half,tensor}.cpp -o 16.so
// Chapters 03 to 11: arch=compute_80,code=sm_90. 10, 22: -DBACKWARD; 11: -DDECODE; 23: -DFP8.
#include <cstdio>
#include <exception>

#include DIRECTORY

#define JOIN(a, b) a##b
#define CHAPTER(n) JOIN(gpu::ch, n)

namespace {

fa::TensorRef tensor(void* data, int64_t batch, int64_t heads, int64_t length, int64_t dim,
                     fa::Dtype dtype = fa::Dtype::bf16) {
  return {data, dtype, {batch, heads, length, dim}, {heads * length * dim, length * dim, dim, 1}};
}

template <class Call>
int guarded(Call call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace

#ifdef BACKWARD
extern "C" int run(void* q, void* k, void* v, void* o, void* d_o, void* lse, void* dq, void* dk,
                   void* dv, void* workspace, int64_t batch, int64_t heads, int64_t kv_heads,
                   int64_t len_q, int64_t len_kv, int64_t dim, float scale, int causal, int fp16,
                   int deterministic) {
  return guarded([&] {
    const auto type = fp16 ? fa::Dtype::f16 : fa::Dtype::bf16;
    const auto of_q = [&](void* data) { return tensor(data, batch, heads, len_q, dim, type); };
    const auto of_k = [&](void* data) { return tensor(data, batch, kv_heads, len_kv, dim, type); };
    fa::BackwardArgs args{.q = of_q(q),
                          .k = of_k(k),
                          .v = of_k(v),
                          .o = of_q(o),
                          .d_o = of_q(d_o),
                          .lse = tensor(lse, batch, heads, len_q, 1, fa::Dtype::f32),
                          .dq = of_q(dq),
                          .dk = of_k(dk),
                          .dv = of_k(dv)};
    args.workspace = static_cast<float*>(workspace);
    args.scale = scale;
    args.causal = causal != 0;
    args.options[1] = deterministic;
    CHAPTER(NN)::backward(args);
  });
}
extern "C" int64_t workspace_floats(int64_t batch, int64_t heads, int64_t len_q, int64_t dim) {
  return fa::backward_workspace({batch, heads, len_q, len_q, dim});
}
#else
extern "C" int run(void* q, void* k, void* v, void* o, int64_t batch, int64_t heads,
                   int64_t kv_heads, int64_t len_q, int64_t len_kv, int64_t dim, float scale,
                   int causal, int splits, void* workspace) {
  return guarded([&] {
#ifdef DECODE
    fa::DecodeArgs args;
    args.splits.own = splits;
    args.causal = causal != 0;
#else
    (void)splits;
    fa::ForwardArgs args;
    args.window_right = causal ? 0 : -1;
#endif
    args.q = tensor(q, batch, heads, len_q, dim);
    args.k = tensor(k, batch, kv_heads, len_kv, dim);
    args.v = tensor(v, batch, kv_heads, len_kv, dim);
    args.o = tensor(o, batch, heads, len_q, dim);
    args.scale = scale;
    args.workspace = static_cast<float*>(workspace);
#ifdef DECODE
    CHAPTER(NN)::decode(args);
#else
    CHAPTER(NN)::forward(args);
#endif
  });
}
#endif

#ifdef DECODE
// The same, causal, with a cache in pages (`pages` is 0: none, and page_size is the capacity), a
// tree of the new tokens or null, and LSE or null.
extern "C" int run_cache(void* q, void* k, void* v, void* o, void* lse, const uint64_t* tree,
                         const int* table, int64_t pages, int64_t page_size, int64_t columns,
                         int64_t batch, int64_t heads, int64_t kv_heads, int64_t len_q, int64_t dim,
                         float scale, int splits, void* workspace, const int* lengths) {
  return guarded([&] {
    fa::DecodeArgs args;
    args.splits.own = splits;
    args.q = tensor(q, batch, heads, len_q, dim);
    args.k = tensor(k, pages > 0 ? pages : batch, kv_heads, page_size, dim);
    args.v = tensor(v, pages > 0 ? pages : batch, kv_heads, page_size, dim);
    args.o = tensor(o, batch, heads, len_q, dim);
    if (lse) args.lse = tensor(lse, batch, heads, len_q, 1, fa::Dtype::f32);
    args.table = pages > 0 ? table : nullptr;
    args.table_columns = columns;
    args.lengths = lengths;
    args.scale = scale;
    args.workspace = static_cast<float*>(workspace);
    args.tree = tree;
    CHAPTER(NN)::decode(args);
  });
}
#endif

#ifdef FP8  // the attention alone, as `prepare` quantizes, and `attend` may then be called many
            // times
namespace {
gpu::ch23::Params prepared;
}
extern "C" int prepare(void* q, void* k, void* v, void* o, int64_t batch, int64_t heads,
                       int64_t kv_heads, int64_t len_q, int64_t len_kv, float scale, int causal,
                       void* workspace) {
  return guarded([&] {
    fa::ForwardArgs args;
    args.window_right = causal ? 0 : -1;
    args.q = tensor(q, batch, heads, len_q, 128);
    args.k = tensor(k, batch, kv_heads, len_kv, 128);
    args.v = tensor(v, batch, kv_heads, len_kv, 128);
    args.o = tensor(o, batch, heads, len_q, 128);
    args.scale = scale;
    args.workspace = static_cast<float*>(workspace);
    prepared = gpu::ch23::start_quantizing<128>(args);
  });
}
extern "C" int attend() {
  return guarded([&] { gpu::ch23::start_attention<128>(prepared, gpu::NoBreaks{}); });
}
extern "C" int64_t workspace_bytes(int64_t batch, int64_t heads, int64_t kv_heads, int64_t len_q,
                                   int64_t len_kv) {
  return gpu::ch23::workspace_of(nullptr, {batch, heads, len_q, len_kv, 128}, kv_heads).bytes;
}
#endif

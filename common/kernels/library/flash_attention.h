/* The kernels of chapters 03 on as one shared library, for Python's ctypes and anybody else's. */
#ifndef FLASH_ATTENTION_H
#define FLASH_ATTENTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FLASH_ATTENTION_BF16 = 0, FLASH_ATTENTION_FP16 = 1, FLASH_ATTENTION_FP32 = 2 };
enum { FLASH_ATTENTION_WHERE_Q_IS = -2, FLASH_ATTENTION_EMULATOR = -1 }; /* or a GPU's number */

typedef struct {
  void *data; /* 16-byte aligned; null: there is no such tensor */
  int32_t type;
  int32_t reserved;   /* 0 */
  int64_t shape[4];   /* batch, heads, length, dim */
  int64_t strides[4]; /* of the same, in elements: [batch, length, heads, dim] is a matter of strides */
} flash_attention_tensor;

/* Later versions append to it; who fills in FLASH_ATTENTION_DEFAULTS first stays right. */
typedef struct {
  uint64_t size;    /* sizeof(flash_attention_arguments) */
  int32_t chapter;  /* from 3 on; 0: the newest that takes all this */
  int32_t device;   /* where the tensors are */
  flash_attention_tensor q, k, v; /* K and V may have fewer heads, a divisor of Q's */
  flash_attention_tensor o;       /* like Q */
  flash_attention_tensor lse;     /* [batch, heads, len_q, 1], fp32, or null */
  double scale;
  /* Query i sees keys i + (len_kv - len_q) - window_left to ... + window_right; -1: no limit.
     Causal: -1 and 0. */
  int64_t window_left, window_right;
  void *stream; /* a cudaStream_t, or null */
  /* Packed sequences, in batch 1: sequence n is rows cu_seqlens_q[n] up to cu_seqlens_q[n + 1] of Q
     and O, and likewise of K and V. `sequences` + 1 ascending numbers each, where the tensors are;
     what they hold on a GPU is not looked at. longest_q: the most queries of a sequence. */
  const int32_t *cu_seqlens_q, *cu_seqlens_k; /* null: not packed */
  int64_t sequences, longest_q;
  double softcap; /* scores become softcap * tanh(score / softcap), before the mask; 0: none */
  int32_t alibi;  /* 1: head h's scores lose 2^(-8 (h + 1) / heads) for each key of distance; if heads is
                     no power of two, the slopes are those of ALiBi's authors' get_slopes */
  int32_t option; /* the chapter's own: 05's --stages, 13's --warpgroups, …; 0: as it is by default */
  void *workspace; /* of any content; 16-byte aligned, where the tensors are; may be null for 0 bytes */
  int64_t workspace_bytes;
} flash_attention_arguments;

#define FLASH_ATTENTION_NO_TENSOR {0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}}
#define FLASH_ATTENTION_DEFAULTS                                          \
  {sizeof(flash_attention_arguments), 0, FLASH_ATTENTION_WHERE_Q_IS,      \
   FLASH_ATTENTION_NO_TENSOR, FLASH_ATTENTION_NO_TENSOR,                  \
   FLASH_ATTENTION_NO_TENSOR, FLASH_ATTENTION_NO_TENSOR,                  \
   FLASH_ATTENTION_NO_TENSOR, 1.0, -1, -1, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0}

/* How many bytes of workspace these arguments need, whose own workspace may be null: 0, except for
   chapters 17 and 23; -1 after an error. Number 17 is the INT8 kernel, 23 the FP8 kernel: what loses
   accuracy must be asked for. */
int64_t flash_attention_workspace(const flash_attention_arguments *arguments);

/* O = softmax(scale Q K^T) V. On a GPU the kernel is started on `stream`, and the call returns
   before it ends; the current device stays what it was. In host memory the emulator runs it.
   Returns 0, or 1 after an error; flash_attention_error() then says which, in one sentence. */
int flash_attention(const flash_attention_arguments *arguments);

/* The same for contiguous bf16 tensors with equally many heads. */
int flash_attention_forward(int chapter, const void *q, const void *k, const void *v, void *o,
                            int64_t batch, int64_t heads, int64_t len_q, int64_t len_kv,
                            int64_t head_dim, double scale, void *stream);

/* A backward pass. Fill it with 0 first. */
typedef struct {
  uint64_t size;          /* sizeof(flash_attention_backward_arguments) */
  int32_t device;         /* where the tensors are */
  int32_t causal;         /* 1: query i sees keys up to i + (len_kv - len_q) */
  int32_t deterministic;  /* 1: the same bits each time */
  int32_t option;         /* the chapter's own: 10's --design; 0: as it is by default */
  flash_attention_tensor q, k, v, o; /* as in the forward pass; O is what came of it */
  flash_attention_tensor lse;        /* likewise */
  flash_attention_tensor d_o;        /* like O */
  flash_attention_tensor dq, dk, dv; /* like Q, K and V */
  double scale;
  void *workspace; /* of any content; 16-byte aligned, where the tensors are */
  int64_t workspace_bytes;
  void *stream; /* a cudaStream_t, or null */
} flash_attention_backward_arguments;

/* dQ, dK and dV, for a given dO, of O = softmax(scale Q K^T) V. As flash_attention. */
int flash_attention_backward(const flash_attention_backward_arguments *arguments);

/* How many bytes of workspace it needs; 0 after an error. */
int64_t flash_attention_backward_workspace(int64_t batch, int64_t heads, int64_t len_q,
                                           int64_t head_dim);

/* The newest queries of sequences whose keys and values lie in a cache. Fill it with 0 first. */
typedef struct {
  uint64_t size;               /* sizeof(flash_attention_decode_arguments) */
  int32_t device;              /* where the tensors are */
  int32_t not_causal;          /* 0: query i of len_q sees keys up to length - len_q + i; 1: all */
  flash_attention_tensor q, o; /* [batch, heads, len_q, dim] */
  flash_attention_tensor k, v; /* [batch, kv_heads, capacity, dim], or with a table
                                  [pages, kv_heads, page_size, dim] */
  flash_attention_tensor k_new, v_new; /* [batch, kv_heads, new, dim]: keys that this call puts
                                          into the cache, behind the others; or null */
  flash_attention_tensor lse;          /* [batch, heads, len_q, 1], fp32, or null */
  /* [batch], where the tensors are: keys in the cache before this call; null: the capacity. What
     they hold on a GPU is not looked at, and neither is what the table holds. */
  const int32_t *lengths;
  const int32_t *table; /* [batch, table_columns]: a sequence's pages in order; null: no pages */
  int64_t table_columns;
  int64_t longest; /* of the lengths, as far as the caller knows: it decides the splits; 0: the most
                      that there is room for */
  double scale;
  int32_t splits;  /* of the keys of a sequence, and of the prefix; 0: chosen */
  int32_t prefix;  /* with a table: the first so many keys of all sequences are on the same pages,
                      which hold nothing else; 0: none. Every sequence has them, and its queries
                      stand behind them. They are read for all sequences at once */
  void *workspace; /* of any content; 16-byte aligned, where the tensors are; may be null for 0
                      bytes */
  int64_t workspace_bytes;
  void *stream; /* a cudaStream_t, or null */
} flash_attention_decode_arguments;

/* O = softmax(scale Q K^T) V over the cache. As flash_attention. */
int flash_attention_decode(const flash_attention_decode_arguments *arguments);

/* How many bytes of workspace these arguments need, whose own workspace may be null; -1 after an
   error. */
int64_t flash_attention_decode_workspace(const flash_attention_decode_arguments *arguments);

const char *flash_attention_error(void); /* of this thread's last failed call */

/* What mma.sync alone reaches on this GPU, in TFLOP/s; 0 after an error. */
double flash_attention_mma_limit(void);

#ifdef __cplusplus
}
#endif
#endif

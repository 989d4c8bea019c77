/* The C interface of the shared library with the kernels of chapters 03 and later. Python uses it
   through ctypes. */
#ifndef FLASH_ATTENTION_H
#define FLASH_ATTENTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FLASH_ATTENTION_BF16 = 0, FLASH_ATTENTION_FP16 = 1, FLASH_ATTENTION_FP32 = 2 };
enum { FLASH_ATTENTION_WHERE_Q_IS = -2, FLASH_ATTENTION_EMULATOR = -1 }; /* or the number of a GPU */

typedef struct {
  void *data; /* 16-byte aligned, or null if there is no tensor */
  int32_t type;
  int32_t reserved;   /* 0 */
  int64_t shape[4];   /* batch, heads, length, dim */
  int64_t strides[4]; /* in elements, so that they also allow [batch, length, heads, dim] */
} flash_attention_tensor;

/* Arguments of the forward pass. Initialize it with FLASH_ATTENTION_DEFAULTS, so that the program
   remains correct when a later version appends fields. */
typedef struct {
  uint64_t size;    /* sizeof(flash_attention_arguments) */
  int32_t chapter;  /* 3 or later, or 0 for the newest but 17, 21 and 23 that takes them */
  int32_t device;   /* where the tensors are */
  flash_attention_tensor q, k, v; /* K and V may have fewer heads, a divisor of Q's */
  flash_attention_tensor o;       /* like Q */
  flash_attention_tensor lse;     /* [batch, heads, len_q, 1], fp32, or null */
  double scale;
  /* Query i sees keys i + (len_kv - len_q) - window_left to ... + window_right, where -1
     means no limit. A causal mask has -1 and 0. */
  int64_t window_left, window_right;
  void *stream; /* a cudaStream_t, or null */
  /* Packed sequences, in batch 1: sequence n is rows cu_seqlens_q[n] up to cu_seqlens_q[n + 1] of Q
     and O, and likewise of K and V. Each array has `sequences` + 1 ascending numbers and is in the
     same memory as the tensors. Numbers in GPU memory are not checked. longest_q is the largest
     number of queries of a sequence. */
  const int32_t *cu_seqlens_q, *cu_seqlens_k; /* null: not packed */
  int64_t sequences, longest_q;
  double softcap; /* scores become softcap * tanh(score / softcap) before the mask, unless it is 0 */
  int32_t alibi;  /* 1 subtracts 2^(-8 (h + 1) / heads) times the distance from the scores of head h. If
                     heads is not a power of two, the slopes are those of get_slopes in the code of
                     ALiBi's authors */
  int32_t option; /* the chapter's own option, such as 05's --stages, or 0 for its default */
  void *workspace; /* uninitialized, 16-byte aligned, in the tensors' memory; null if it has 0 bytes */
  int64_t workspace_bytes;
  const float *sinks; /* [heads], in the tensors' memory: a logit per head that only the softmax's sum
                         counts, finite or -inf, or null for none. LSE contains it */
} flash_attention_arguments;

#define FLASH_ATTENTION_NO_TENSOR {0, 0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}}
#define FLASH_ATTENTION_DEFAULTS                                          \
  {sizeof(flash_attention_arguments), 0, FLASH_ATTENTION_WHERE_Q_IS,      \
   FLASH_ATTENTION_NO_TENSOR, FLASH_ATTENTION_NO_TENSOR,                  \
   FLASH_ATTENTION_NO_TENSOR, FLASH_ATTENTION_NO_TENSOR,                  \
   FLASH_ATTENTION_NO_TENSOR, 1.0, -1, -1, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0}

/* Returns the bytes of workspace that these arguments need, or -1 after an error. Their workspace may
   be null. Only chapters 17, 21 and 23 need a workspace, so `chapter` must name them explicitly.
   Chapter 17 is the INT8 kernel and 23 the FP8 kernel, which lose accuracy. */
int64_t flash_attention_workspace(const flash_attention_arguments *arguments);

/* Computes O = softmax(scale Q K^T) V. With tensors in GPU memory it starts the kernel on `stream` and
   returns before the kernel ends. It does not change the current device. With tensors in host memory
   the emulator runs the kernel. Returns 0, or 1 after an error. flash_attention_error() then returns
   a sentence that describes the error. */
int flash_attention(const flash_attention_arguments *arguments);

/* Does the same for contiguous bf16 tensors where Q, K and V have the same number of heads. */
int flash_attention_forward(int chapter, const void *q, const void *k, const void *v, void *o,
                            int64_t batch, int64_t heads, int64_t len_q, int64_t len_kv,
                            int64_t head_dim, double scale, void *stream);

/* Arguments of the backward pass. Initialize it with 0. */
typedef struct {
  uint64_t size;          /* sizeof(flash_attention_backward_arguments) */
  int32_t device;         /* where the tensors are */
  int32_t causal;         /* 1 if query i sees only keys up to i + (len_kv - len_q) */
  int32_t deterministic;  /* 1 if every call must give the same bits */
  int32_t option;         /* the chapter's own option, such as 10's --design, or 0 for its default */
  flash_attention_tensor q, k, v, o; /* as in the forward pass, whose result is O */
  flash_attention_tensor lse;        /* the result of the forward pass */
  flash_attention_tensor d_o;        /* like O */
  flash_attention_tensor dq, dk, dv; /* like Q, K and V */
  double scale;
  void *workspace; /* uninitialized, 16-byte aligned, in the tensors' memory */
  int64_t workspace_bytes;
  void *stream; /* a cudaStream_t, or null */
  int32_t windowed; /* 1: window_left and window_right apply, as in the forward pass; causal is 0 */
  int32_t reserved; /* 0 */
  int64_t window_left, window_right;
  const float *sinks; /* [heads], in the tensors' memory, as in the forward pass; null: none */
  float *d_sinks;     /* [heads], in the tensors' memory: their gradients, or null */
  const int32_t *cu_seqlens_q, *cu_seqlens_k; /* packed sequences, as in the forward pass, or null */
  int64_t sequences;
} flash_attention_backward_arguments;

/* Computes dQ, dK and dV of O = softmax(scale Q K^T) V from dO. Device, stream and errors are handled
   as by flash_attention. */
int flash_attention_backward(const flash_attention_backward_arguments *arguments);

/* Returns the bytes of workspace that the backward pass needs, or 0 after an error. With packed
   sequences, len_q is the queries of all sequences plus 128 for each sequence. */
int64_t flash_attention_backward_workspace(int64_t batch, int64_t heads, int64_t len_q,
                                           int64_t head_dim);

/* Arguments of decoding, which computes the newest queries of sequences whose keys and values are in a
   cache. Initialize it with 0. */
typedef struct {
  uint64_t size;               /* sizeof(flash_attention_decode_arguments) */
  int32_t device;              /* where the tensors are */
  int32_t not_causal;          /* 0: query i of len_q sees keys up to length - len_q + i; 1: all */
  flash_attention_tensor q, o; /* [batch, heads, len_q, dim] */
  flash_attention_tensor k, v; /* [batch, kv_heads, capacity, dim], or, with a table,
                                  [pages, kv_heads, page_size, dim] */
  flash_attention_tensor k_new, v_new; /* [batch, kv_heads, new, dim]: keys and values that this
                                          call appends to the cache, or null */
  flash_attention_tensor lse;          /* [batch, heads, len_q, 1], fp32, or null */
  /* [batch], in the tensors' memory: the number of keys in the cache before this call, or null for the
     capacity. Lengths and table in GPU memory are not checked. */
  const int32_t *lengths;
  const int32_t *table; /* [batch, table_columns]: the pages of each sequence, or null for no pages */
  int64_t table_columns;
  int64_t longest; /* an upper bound of the lengths, used to choose the splits, or 0 */
  double scale;
  int32_t splits;  /* number of parts of the keys, and of the prefix; 0 chooses it automatically */
  int32_t prefix;  /* with a table: the number of first keys that all sequences have on the same
                      pages, which contain no other keys, or 0 for none. Every query is after them. They
                      are read once for all sequences */
  void *workspace; /* uninitialized, 16-byte aligned, in the tensors' memory; null if it has 0
                      bytes */
  int64_t workspace_bytes;
  void *stream; /* a cudaStream_t, or null */
  const float *sinks; /* [heads], in the tensors' memory, as in the forward pass; null: none */
  /* [batch, len_q], in the tensors' memory: bit j of a new token's word says whether it sees new token
     j, which is itself or an earlier one. It sees all keys before the new tokens, of which there are
     at most 64. Null: it sees all earlier new tokens. Words in GPU memory are not checked. */
  const uint64_t *tree;
} flash_attention_decode_arguments;

/* Computes O = softmax(scale Q K^T) V over the cache. Device, stream and errors are handled as by
   flash_attention. */
int flash_attention_decode(const flash_attention_decode_arguments *arguments);

/* Returns the bytes of workspace that these arguments need, or -1 after an error. Their workspace may
   be null. */
int64_t flash_attention_decode_workspace(const flash_attention_decode_arguments *arguments);

/* Returns the message of this thread's last failed call. */
const char *flash_attention_error(void);

/* Measures the TFLOP/s that mma.sync alone reaches on this GPU. Returns 0 after an error. */
double flash_attention_mma_limit(void);

#ifdef __cplusplus
}
#endif
#endif

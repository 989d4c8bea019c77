/* Chapters 03 to 08 as one shared library, for Python's ctypes and anybody else's. */
#ifndef FLASH_ATTENTION_H
#define FLASH_ATTENTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* O = softmax(scale Q K^T) V with the kernel of `chapter` (3 to 8). q and o are
   [batch, heads, len_q, head_dim], k and v [batch, heads, len_kv, head_dim], bf16, row-major,
   16-byte aligned. Pointers to GPU memory: the kernel is started on `stream` (a cudaStream_t, or
   null), and the call returns before it ends. Pointers to host memory: the emulator runs it.
   Returns 0, or 1 after an error; flash_attention_error() then says which, in one sentence. */
int flash_attention_forward(int chapter, const void *q, const void *k, const void *v, void *o,
                            int64_t batch, int64_t heads, int64_t len_q, int64_t len_kv,
                            int64_t head_dim, double scale, void *stream);

const char *flash_attention_error(void); /* of this thread's last failed call */

/* What mma.sync alone reaches on this GPU, in TFLOP/s; 0 after an error. */
double flash_attention_mma_limit(void);

#ifdef __cplusplus
}
#endif
#endif

"""The kernels of chapters 03 on from Python, through ctypes.

    import flash_attention
    library = flash_attention.load("build/lib/libflash_attention.so")
    o = library.forward(q, k, v, chapter=7)

q, k, v: NumPy arrays [B,H,L,D] (rounded to bf16; runs on the emulator; gives float32), or PyTorch
tensors in bf16, contiguous, on the GPU (gives a tensor) or not.
"""

import ctypes

import numpy as np


def to_bf16(x):
    """float32 -> bf16 as uint16, rounded to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Library:
    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        self._forward = self._library.flash_attention_forward
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        self._forward.argtypes = [ctypes.c_int] + [pointer] * 4 + [size] * 5 + [
            ctypes.c_double, pointer]
        self._library.flash_attention_error.restype = ctypes.c_char_p

    def forward(self, q, k, v, chapter=7, scale=None, stream=None):
        if isinstance(q, np.ndarray):
            # 16-byte alignment: NumPy gives it to new arrays
            q, k, v = (to_bf16(x) for x in (q, k, v))
            o = np.full(q.shape, 0x7FFF, np.uint16)  # NaN: what is not written shows
            address = lambda x: x.ctypes.data
        else:
            import torch
            if not all(x.dtype == torch.bfloat16 and x.is_contiguous() for x in (q, k, v)):
                raise ValueError("q, k and v must be contiguous bfloat16 tensors")
            o = torch.full_like(q, float("nan"))
            if stream is None and q.is_cuda:
                stream = torch.cuda.current_stream().cuda_stream
            address = lambda x: x.data_ptr()
        batch, heads, len_q, dim = q.shape
        if tuple(k.shape) != tuple(v.shape) or tuple(k.shape) != (batch, heads, k.shape[2], dim):
            raise ValueError(f"shapes do not fit: q {q.shape}, k {k.shape}, v {v.shape}")
        failed = self._forward(chapter, *(address(x) for x in (q, k, v, o)), batch, heads, len_q,
                               k.shape[2], dim, dim ** -0.5 if scale is None else scale, stream)
        if failed:
            raise ValueError(self._library.flash_attention_error().decode())
        return from_bf16(o) if isinstance(o, np.ndarray) else o


def load(path):
    return Library(path)

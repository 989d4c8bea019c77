"""Calls the kernels of chapters 03 and later from Python, through ctypes.

    import flash_attention
    library = flash_attention.load("build/lib/libflash_attention.so")
    o = library.attention(q, k, v)
    o = library.differentiable_attention(q, k, v)    # PyTorch: o.backward() reaches q, k and v

q, k and v are NumPy arrays, or PyTorch tensors of 16-bit floats on any device. With NumPy arrays
the emulator runs the kernel, and the result is float32. float16 arrays stay as they are, and other
types are rounded to bf16. A request that no chapter supports raises ValueError with a message.
"""

import ctypes

import numpy as np

TYPES = {"torch.bfloat16": 0, "torch.float16": 1, "torch.float32": 2}
EMULATOR = -1  # instead of a GPU's number
LAYOUTS = ("bhld", "blhd")


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 4), ("strides", ctypes.c_int64 * 4)]


class Arguments(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("chapter", ctypes.c_int32), ("device", ctypes.c_int32),
                *[(name, Tensor) for name in ("q", "k", "v", "o", "lse")],
                ("scale", ctypes.c_double),
                ("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64),
                ("stream", ctypes.c_void_p),
                ("cu_seqlens_q", ctypes.c_void_p), ("cu_seqlens_k", ctypes.c_void_p),
                ("sequences", ctypes.c_int64), ("longest_q", ctypes.c_int64),
                ("softcap", ctypes.c_double), ("alibi", ctypes.c_int32),
                ("option", ctypes.c_int32), ("workspace", ctypes.c_void_p),
                ("workspace_bytes", ctypes.c_int64), ("sinks", ctypes.c_void_p)]


class BackwardArguments(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("device", ctypes.c_int32), ("causal", ctypes.c_int32),
                ("deterministic", ctypes.c_int32), ("option", ctypes.c_int32),
                *[(name, Tensor) for name in ("q", "k", "v", "o", "lse", "d_o", "dq", "dk", "dv")],
                ("scale", ctypes.c_double), ("workspace", ctypes.c_void_p),
                ("workspace_bytes", ctypes.c_int64), ("stream", ctypes.c_void_p),
                ("windowed", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64),
                ("sinks", ctypes.c_void_p), ("d_sinks", ctypes.c_void_p),
                ("cu_seqlens_q", ctypes.c_void_p), ("cu_seqlens_k", ctypes.c_void_p),
                ("sequences", ctypes.c_int64)]


class DecodeArguments(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("device", ctypes.c_int32),
                ("not_causal", ctypes.c_int32),
                *[(name, Tensor) for name in ("q", "o", "k", "v", "k_new", "v_new", "lse")],
                ("lengths", ctypes.c_void_p), ("table", ctypes.c_void_p),
                ("table_columns", ctypes.c_int64), ("longest", ctypes.c_int64),
                ("scale", ctypes.c_double), ("splits", ctypes.c_int32),
                ("prefix", ctypes.c_int32), ("workspace", ctypes.c_void_p),
                ("workspace_bytes", ctypes.c_int64), ("stream", ctypes.c_void_p),
                ("sinks", ctypes.c_void_p), ("tree", ctypes.c_void_p)]


def to_bf16(x):
    """Rounds float32 to bf16 (as uint16), to nearest even. NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def of_array(x):
    """Describes a NumPy array of bf16 (as uint16), fp16 or fp32 for the library."""
    return Tensor(x.ctypes.data, {"float32": 2, "float16": 1}.get(x.dtype.name, 0), 0, x.shape,
                  tuple(stride // x.itemsize for stride in x.strides))


def of_torch(x):
    return Tensor(x.data_ptr(), TYPES[str(x.dtype)], 0, tuple(x.shape), tuple(x.stride()))


def check(name, x):
    if len(x.shape) != 4:
        raise ValueError(f"{name} has {len(x.shape)} dimensions, expected 4")
    if not isinstance(x, np.ndarray) and str(x.dtype) not in TYPES:
        raise ValueError(f"{name} is {x.dtype}, expected one of {', '.join(TYPES)}")


def padded(x, dim):
    """Returns x with zeros appended to each row."""
    if isinstance(x, np.ndarray):
        return np.pad(x, [(0, 0)] * 3 + [(0, dim - x.shape[3])])
    import torch
    return torch.nn.functional.pad(x, (0, dim - x.shape[3]))


def check_out(out, q):
    """Raises ValueError if `out` is given and is not like q."""
    if out is None:
        return
    check("out", out)
    if isinstance(out, np.ndarray) != isinstance(q, np.ndarray):
        raise ValueError("out and q must both be NumPy arrays or both be tensors")
    if tuple(out.shape) != tuple(q.shape):
        raise ValueError(f"out is {list(out.shape)} and q is {list(q.shape)}: "
                         "their shapes must be equal")
    if isinstance(out, np.ndarray):
        if out.dtype.kind != "f" or not out.flags.writeable:
            raise ValueError("out: expected a writable array of float16, float32 or float64")
    elif out.dtype != q.dtype:
        raise ValueError(f"out is {out.dtype} and q is {q.dtype}: their types must be equal")


def checked_int(name, number, least=0, most=2**31 - 1):
    """Returns an integer that fits the C type. Raises ValueError otherwise."""
    if int(number) != number or not least <= number <= most:
        raise ValueError(f"{name} {number}: expected a whole number from {least} to {most}")
    return int(number)


def int32_on(name, numbers, like):
    """Returns numbers as an array or tensor of int32, in the memory of `like`."""
    is_array = isinstance(like, np.ndarray) or not hasattr(like, "is_cuda")
    if is_array:
        exact = np.asarray(numbers)
        is_whole, is_int32 = exact.dtype.kind in "iu", exact.dtype == np.int32
    else:
        import torch
        exact = torch.as_tensor(numbers, device=like.device)
        is_whole = not (exact.is_floating_point() or exact.is_complex())
        is_int32 = exact.dtype == torch.int32
    count = int(np.prod(exact.shape))
    if count and not (is_whole and (
            is_int32 or (int(exact.min()) >= -2**31 and int(exact.max()) < 2**31))):
        raise ValueError(f"{name}: expected whole numbers of 32 bits")
    return np.ascontiguousarray(exact, np.int32) if is_array else exact.to(torch.int32).contiguous()


def starts_on(cu_seqlens_q, cu_seqlens_k, like):
    """Returns where packed sequences start, in the memory of `like`, and their number, or (None,
    None), 0."""
    if (cu_seqlens_q is None) != (cu_seqlens_k is None):
        raise ValueError("cu_seqlens_q and cu_seqlens_k go together: give both")
    if cu_seqlens_q is None:
        return (None, None), 0
    starts = [int32_on("cu_seqlens", x, like) for x in (cu_seqlens_q, cu_seqlens_k)]
    if len(starts[0]) != len(starts[1]) or len(starts[0]) < 2:
        raise ValueError("cu_seqlens_q and cu_seqlens_k: expected as many numbers of each, at least two")
    return starts, len(starts[0]) - 1


def checked_window(window, causal):
    """Returns the window's sides, -1 for no limit. Raises ValueError for other numbers."""
    left, right = (-1, -1) if window is None else map(int, window)
    if min(left, right) < -1 or max(left, right) >= 2**63:
        raise ValueError(f"window {left},{right}: expected lengths, or -1 for no limit")
    return left, 0 if causal else right


def sinks_on(sinks, like, heads):
    """Returns the sinks as fp32, in the memory of `like`, or None. Raises ValueError unless there is
    a number for each head."""
    if sinks is None:
        return None
    if isinstance(like, np.ndarray):
        sinks = np.ascontiguousarray(sinks, np.float32)
    else:
        import torch
        sinks = torch.as_tensor(sinks, dtype=torch.float32, device=like.device).contiguous()
    if tuple(sinks.shape) != (heads,):
        raise ValueError(f"sinks has shape {list(sinks.shape)}: expected [{heads}], a number for "
                         "each head")
    return sinks


def tree_on(tree, like, batch, tokens):
    """Returns 64-bit words [batch, tokens] in the memory of `like`, or None: bit j of a new token's
    word says whether it sees new token j. Raises ValueError for a tree that decode() does not take."""
    if tree is None:
        return None
    tree = np.asarray(tree.cpu() if hasattr(tree, "is_cuda") else tree)
    one = (tokens, tokens) if tree.dtype == bool else (tokens,)
    if tree.dtype.kind not in "bi" or tree.shape not in (one, (batch, *one)):
        raise ValueError(f"tree is {tree.dtype} {list(tree.shape)}: expected the parents of {tokens} "
                         "new tokens, or a boolean mask, for one sequence or for all")
    if tokens > 64:
        raise ValueError(f"a tree of {tokens} tokens: expected at most 64")
    tree = np.broadcast_to(tree, (batch, *one))
    words = np.zeros((batch, tokens), np.uint64)
    for i in range(tokens):
        if tree.dtype == bool:
            seen = tree[:, i]
            if not seen[:, i].all() or seen[:, i + 1:].any():
                raise ValueError(f"tree: token {i} must see itself and no later token")
            words[:, i] = (seen.astype(np.uint64) << np.arange(tokens, dtype=np.uint64)).sum(1)
        else:
            parents = tree[:, i]
            if (parents < -1).any() or (parents >= i).any():
                raise ValueError(f"tree: the parent of token {i} must be an earlier token, or -1")
            above = np.where(parents < 0, np.uint64(0), words[np.arange(batch), parents])
            words[:, i] = above | np.uint64(1 << i)
    if isinstance(like, np.ndarray):
        return words
    import torch
    return torch.as_tensor(words.view(np.int64), device=like.device)


def aligned_floats(count):
    """Returns floats in host memory at an address that is a multiple of 16 bytes."""
    floats = np.empty(count + 4, np.float32)
    return floats[-floats.ctypes.data // 4 % 4:]


def address(x):
    return x.ctypes.data if isinstance(x, np.ndarray) else x.data_ptr()


class Library:
    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        self._library.flash_attention_error.restype = ctypes.c_char_p
        self._library.flash_attention_workspace.restype = ctypes.c_int64
        self._library.flash_attention_backward_workspace.argtypes = [ctypes.c_int64] * 4
        self._library.flash_attention_backward_workspace.restype = ctypes.c_int64
        self._library.flash_attention_decode_workspace.restype = ctypes.c_int64
        self._function = None  # a torch.autograd.Function, created when it is needed

    def attention(self, q, k, v, causal=False, window=None, scale=None, layout="bhld", chapter=None,
                  return_lse=False, stream=None, softcap=0.0, alibi=False, cu_seqlens_q=None,
                  cu_seqlens_k=None, longest_q=None, out=None, option=0, sinks=None):
        """Returns softmax(scale · q kᵀ) v, and its log-sum-exp [B,H,L] with return_lse.

        layout: of all tensors, "bhld" for [batch, heads, length, dim] or "blhd" for [batch, length,
        heads, dim]. k and v may have fewer heads than q. causal and window are aligned to the last
        query and the last key. window=(left, right) is inclusive, and -1 means no limit.
        chapter=None selects the newest chapter that supports the arguments, is exact and needs no
        workspace, which leaves out 17, 21 and 23. stream: a cudaStream_t, by default PyTorch's
        current one.

        Head sizes that the kernels do not support are padded with zeros, in copies. cu_seqlens_q
        and cu_seqlens_k describe sequences packed into batch 1, by the start of each and the end of
        the last one, int32 and on q's device. longest_q is the largest number of queries of a
        sequence. If it is not given, it is read from cu_seqlens_q, which synchronizes with a GPU.
        sinks: [H], a logit per head that only the softmax's sum counts, and so does the log-sum-exp.
        softcap, alibi and option: see flash_attention.h. out: a tensor like q, or an array of
        floats with q's shape, which is filled and returned.
        """
        if layout not in LAYOUTS:
            raise ValueError(f"layout {layout!r}: expected one of {', '.join(LAYOUTS)}")
        for name, x in zip("qkv", (q, k, v)):
            check(name, x)
            if isinstance(x, np.ndarray) != isinstance(q, np.ndarray):
                raise ValueError(f"{name} and q must both be NumPy arrays or both be tensors")
        check_out(out, q)
        left, right = checked_window(window, causal)
        # [batch, length, heads, dim] is the same memory with other strides.
        swapped = (lambda x: x.swapaxes(1, 2)) if layout == "blhd" else (lambda x: x)
        lse = None
        sinks = sinks_on(sinks, q, swapped(q).shape[1])
        dim = q.shape[3]
        in_place = out is not None and dim % 8 == 0 and not isinstance(q, np.ndarray)
        scale = (dim or 1) ** -0.5 if scale is None else scale
        if dim % 8 and k.shape[3] == v.shape[3] == dim:
            q, k, v = (padded(x, (dim + 7) // 8 * 8) for x in (q, k, v))
        starts, sequences = starts_on(cu_seqlens_q, cu_seqlens_k, q)
        if sequences and longest_q is None:
            longest_q = int((starts[0][1:] - starts[0][:-1]).max())
        if isinstance(q, np.ndarray):
            is_fp16 = q.dtype == np.float16
            as_bits = (lambda x: x.astype(np.float16)) if is_fp16 else to_bf16
            q, k, v = (as_bits(np.ascontiguousarray(swapped(x))) for x in (q, k, v))
            # makes unwritten elements visible
            o = np.full(q.shape, np.nan if is_fp16 else 0x7FFF, q.dtype)
            result = lambda: swapped(o.astype(np.float32) if is_fp16 else from_bf16(o))
            if return_lse:
                lse = np.full((*q.shape[:3], 1), np.nan, np.float32)
            view, device = of_array, EMULATOR
        else:
            filled = out if in_place else q.new_full(tuple(q.shape), float("nan"))
            result = lambda: filled
            q, k, v, o = (swapped(x) for x in (q, k, v, filled))
            view, device = of_torch, q.device.index if q.device.type == "cuda" else EMULATOR
            if return_lse or device != EMULATOR:
                import torch
            if return_lse:
                lse = q.new_full((*q.shape[:3], 1), float("nan"), dtype=torch.float32)
            if stream is None and device != EMULATOR:
                stream = torch.cuda.current_stream(q.device).cuda_stream
        arguments = Arguments(
            ctypes.sizeof(Arguments), checked_int("chapter", chapter or 0), device,
            *(view(x) for x in (q, k, v, o)), Tensor() if lse is None else view(lse), scale, left,
            right, stream, *(None if x is None else address(x) for x in starts),
            sequences, checked_int("longest_q", longest_q or 0, most=2**63 - 1), softcap, alibi,
            checked_int("option", option), None, 0, None if sinks is None else address(sinks))
        bytes_ = self._library.flash_attention_workspace(ctypes.byref(arguments))
        if bytes_ > 0:  # -1: the call below raises the error
            workspace = (aligned_floats((bytes_ + 3) // 4) if device == EMULATOR else
                         torch.empty(bytes_, dtype=torch.uint8, device=q.device))
            arguments.workspace, arguments.workspace_bytes = address(workspace), bytes_
        if self._library.flash_attention(ctypes.byref(arguments)):
            message = self._library.flash_attention_error().decode()
            if dim % 8:  # q was padded, so use the caller's scale
                message = message.replace(f"head size {(dim + 7) // 8 * 8}:", f"head size {dim}:")
            raise ValueError(message)
        o = result()[..., :dim]
        if out is not None:
            if not in_place:
                out[...] = o
            o = out
        return (o, lse[..., 0]) if return_lse else o

    def backward(self, do, q, k, v, o, lse, causal=False, scale=None, layout="bhld",
                 deterministic=False, option=0, stream=None, window=None, sinks=None,
                 cu_seqlens_q=None, cu_seqlens_k=None):
        """Returns dq, dk and dv of sum(do * o), and the gradient of sinks if they are given. o and lse
        are the results of attention(..., return_lse=True) for the same q, k, v, causal, window,
        scale, sinks, cu_seqlens and layout. With deterministic, every call gives the same bits."""
        if layout not in LAYOUTS:
            raise ValueError(f"layout {layout!r}: expected one of {', '.join(LAYOUTS)}")
        for name, x in (("do", do), ("q", q), ("k", k), ("v", v), ("o", o)):
            check(name, x)
            if isinstance(x, np.ndarray) != isinstance(q, np.ndarray):
                raise ValueError(f"{name} and q must both be NumPy arrays or both be tensors")
        dim = q.shape[3]
        scale = (dim or 1) ** -0.5 if scale is None else scale
        whole = (dim + 7) // 8 * 8
        swapped = (lambda x: x.swapaxes(1, 2)) if layout == "blhd" else (lambda x: x)
        tensors = [padded(x, whole) if x.shape[3] == dim < whole else x for x in (q, k, v, o, do)]
        batch, heads, length = swapped(q).shape[:3]
        left, right = checked_window(window, causal)
        sinks = sinks_on(sinks, q, heads)
        d_sinks = None
        starts, sequences = starts_on(cu_seqlens_q, cu_seqlens_k, q)
        bytes_ = self._library.flash_attention_backward_workspace(
            batch, heads, length + 128 * sequences, whole)
        if bytes_ == 0:
            raise ValueError(self._library.flash_attention_error().decode())
        if isinstance(q, np.ndarray):
            is_fp16 = q.dtype == np.float16
            as_bits = (lambda x: x.astype(np.float16)) if is_fp16 else to_bf16
            tensors = [as_bits(np.ascontiguousarray(swapped(x))) for x in tensors]
            gradients = [np.full(x.shape, np.nan if is_fp16 else 0x7FFF, x.dtype) for x in tensors[:3]]
            result = lambda x: swapped(x.astype(np.float32) if is_fp16 else from_bf16(x))
            lse = np.ascontiguousarray(lse, np.float32)
            workspace = aligned_floats(bytes_ // 4)
            if sinks is not None:
                d_sinks = np.full(heads, np.nan, np.float32)
            view, device = of_array, EMULATOR
        else:
            import torch
            if sinks is not None:
                d_sinks = torch.full_like(sinks, float("nan"))
            filled = [x.new_full(tuple(x.shape), float("nan")) for x in tensors[:3]]
            gradients = [swapped(x) for x in filled]
            result = swapped
            tensors = [swapped(x if x.stride()[-1] == 1 else x.contiguous()) for x in tensors]
            lse = lse.contiguous()
            workspace = torch.empty(bytes_ // 4, dtype=torch.float32, device=q.device)
            view, device = of_torch, q.device.index if q.device.type == "cuda" else EMULATOR
            if stream is None and device != EMULATOR:
                stream = torch.cuda.current_stream(q.device).cuda_stream
        q, k, v, o, do = tensors
        arguments = BackwardArguments(
            ctypes.sizeof(BackwardArguments), device, causal, deterministic, checked_int("option", option),
            *(view(x) for x in (q, k, v, o, lse[..., None], do, *gradients)), scale,
            address(workspace), bytes_, stream, window is not None, 0, left, right,
            *(None if x is None else address(x) for x in (sinks, d_sinks, *starts)), sequences)
        if self._library.flash_attention_backward(ctypes.byref(arguments)):
            raise ValueError(self._library.flash_attention_error().decode())
        gradients = tuple(result(x)[..., :dim] for x in gradients)
        return gradients if sinks is None else (*gradients, d_sinks)

    def decode(self, q, k_cache, v_cache, lengths=None, table=None, k_new=None, v_new=None,
               causal=True, scale=None, layout="bhld", splits=0, longest=None, prefix=0,
               return_lse=False, stream=None, out=None, sinks=None, tree=None):
        """Returns O [B,H,L,D] of the newest queries of sequences whose keys and values are in a
        cache.

        k_cache, v_cache: [batch, kv_heads, capacity, dim], where the first `lengths` entries
        (int32, on q's device) of each sequence are in use. With `table`, int32 [batch, columns],
        they are [pages, kv_heads, page_size, dim], and key t of sequence n is row t % page_size of
        page table[n, t // page_size]. k_new, v_new [batch, kv_heads, new, dim]: keys and values
        that this call appends. `lengths` does not include them. layout "blhd": in all of these
        tensors the length is before the heads. causal: the last query has the position of the last
        key. longest: the largest length. If it is not given, it is read from `lengths`, which
        synchronizes with a GPU. splits=0 chooses the number of splits. prefix: the number of first
        keys that all sequences have on the same pages of the table. They are read once, and all
        queries must be after them. out and sinks: as in attention. tree: what the last L tokens, at
        most 64, see of each other, as [L] or [B,L] parents, earlier tokens or -1 for none, or as a
        boolean mask [L,L] or [B,L,L]. They see all keys before them.

        The cache is changed in place. NumPy arrays other than float16 are rounded to bf16.
        """
        if layout not in LAYOUTS:
            raise ValueError(f"layout {layout!r}: expected one of {', '.join(LAYOUTS)}")
        if (k_new is None) != (v_new is None):
            raise ValueError("k_new and v_new go together: give both")
        given = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "k_new": k_new, "v_new": v_new}
        given = {name: x for name, x in given.items() if x is not None}
        for name, x in given.items():
            check(name, x)
            if isinstance(x, np.ndarray) != isinstance(q, np.ndarray):
                raise ValueError(f"{name} and q must both be NumPy arrays or both be tensors")
        check_out(out, q)
        swapped = (lambda x: x.swapaxes(1, 2)) if layout == "blhd" else (lambda x: x)
        scale = (q.shape[3] or 1) ** -0.5 if scale is None else scale
        batch = q.shape[0]
        if lengths is not None:
            lengths = int32_on("lengths", lengths, q)
            if tuple(lengths.shape) != (batch,):
                raise ValueError(f"lengths: expected {batch} numbers, one for each sequence")
            if longest is None:
                longest = int(lengths.max())
        if table is not None:
            table = int32_on("table", table, q)
            if len(table.shape) != 2 or table.shape[0] != batch:
                raise ValueError(f"table: expected [{batch}, columns], a row for each sequence")
        tensors = {name: swapped(x) for name, x in given.items()}
        sinks = sinks_on(sinks, q, tensors["q"].shape[1])
        tree = tree_on(tree, q, batch, tensors["q"].shape[2])
        lse = None
        if isinstance(q, np.ndarray):
            is_fp16 = q.dtype == np.float16
            as_bits = (lambda x: x.astype(np.float16)) if is_fp16 else to_bf16
            as_floats = (lambda x: x.astype(np.float32)) if is_fp16 else from_bf16
            tensors = {name: as_bits(np.ascontiguousarray(x)) for name, x in tensors.items()}
            o = np.full(tensors["q"].shape, np.nan if is_fp16 else 0x7FFF, tensors["q"].dtype)
            if return_lse:
                lse = np.full((*o.shape[:3], 1), np.nan, np.float32)
            view, device = of_array, EMULATOR
        else:
            filled = q.new_full(tuple(q.shape), float("nan")) if out is None else out
            o = swapped(filled)
            view, device = of_torch, q.device.index if q.device.type == "cuda" else EMULATOR
            if return_lse or device != EMULATOR:
                import torch
            if return_lse:
                lse = q.new_full((*o.shape[:3], 1), float("nan"), dtype=torch.float32)
            if stream is None and device != EMULATOR:
                stream = torch.cuda.current_stream(q.device).cuda_stream
        tensors["o"] = o
        of = {name: view(x) for name, x in tensors.items()}
        arguments = DecodeArguments(
            ctypes.sizeof(DecodeArguments), device, not causal,
            *(of.get(name, Tensor()) for name in ("q", "o", "k_cache", "v_cache", "k_new", "v_new")),
            Tensor() if lse is None else view(lse),
            *(None if x is None else address(x) for x in (lengths, table)),
            0 if table is None else table.shape[1], checked_int("longest", longest or 0, -2**31),
            scale, checked_int("splits", splits), checked_int("prefix", prefix, -2**31), None, 0, stream,
            *(None if x is None else address(x) for x in (sinks, tree)))
        bytes_ = self._library.flash_attention_decode_workspace(ctypes.byref(arguments))
        if bytes_ < 0:
            raise ValueError(self._library.flash_attention_error().decode())
        if bytes_ > 0:
            workspace = aligned_floats(bytes_ // 4) if device == EMULATOR else torch.empty(
                bytes_ // 4, dtype=torch.float32, device=q.device)
            arguments.workspace, arguments.workspace_bytes = address(workspace), bytes_
        if self._library.flash_attention_decode(ctypes.byref(arguments)):
            raise ValueError(self._library.flash_attention_error().decode())
        if isinstance(q, np.ndarray):
            filled = swapped(as_floats(o))
            for name in ("k_cache", "v_cache") if k_new is not None else ():
                given[name][...] = swapped(as_floats(tensors[name]))
            if out is not None:
                out[...] = filled
                filled = out
        return (filled, lse[..., 0]) if return_lse else filled

    def differentiable_attention(self, q, k, v, causal=False, scale=None, layout="bhld",
                                 deterministic=False, window=None, sinks=None, cu_seqlens_q=None,
                                 cu_seqlens_k=None):
        """Like attention() for PyTorch tensors, and gradients flow back to q, k, v and sinks."""
        if self._function is None:
            self._function = autograd_function(self)
        return self._function.apply(q, k, v, sinks, deterministic, {
            "causal": causal, "scale": scale, "layout": layout, "window": window,
            "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k})

    def forward(self, q, k, v, chapter=7, scale=None, stream=None):
        return self.attention(q, k, v, scale=scale, chapter=chapter, stream=stream)


def autograd_function(library):
    import torch

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, sinks, deterministic, options):
            o, lse = library.attention(q, k, v, sinks=sinks, return_lse=True, **options)
            ctx.save_for_backward(q, k, v, o, lse, sinks)
            ctx.options = {"deterministic": deterministic, **options}
            return o

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, do):
            *tensors, sinks = ctx.saved_tensors
            dq, dk, dv, *d_sinks = library.backward(do, *tensors, sinks=sinks, **ctx.options)
            d_sinks = d_sinks[0].to(sinks.dtype) if d_sinks else None
            return dq, dk, dv, d_sinks, None, None

    return Attention


def load(path):
    return Library(path)

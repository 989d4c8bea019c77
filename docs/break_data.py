"""The museum's labels: every break, where it shows, what it shows, and why. Data only.

Each break has the texts of its exhibit (line, predict, happens, why, caught) and its demos. A demo
runs in some chapters and says which symptom it must show there; docs/test_break_it.py holds it to
that:

    nan: n          at least n elements are not finite
    tile: t         of chapter 02's trace, the first in which p or l is not finite
    wrong: x        all finite, the largest error at least x
    lse: x          O is right, and the first LSE that is wrong is so by at least x
    hazard: kind    the emulator reports it, in a source line that contains `at`, against another
                    line that contains `other`
    masked: n       all right, but so many tiles are masked, more than in the intact program
    silent: True    all right: on finite numbers it cannot be seen
    fine: […]       changes under which the broken program passes: the tests that miss the break

Keys of an input: shape [B, H, Lq, Lkv, D], scale (of the scores), dtype, causal, options (further
arguments), ramp (the score of key j is scale · j in the last query, less in those before it),
values (V of a ramp is so many times as large), x (chapter 01: the scores themselves). Or run: all of
the program's arguments (chapter 18).
Chapter 17f is ch17_fp8, its second kernel.
"""

CP_ASYNC = ("03", "04", "05", "06", "07", "08", "09", "17")  # kernels whose threads copy
KERNELS = CP_ASYNC + ("12", "13", "14", "15", "16")
SWIZZLED = KERNELS[1:]
PIPELINED = CP_ASYNC[2:]

BREAKS = {
    "no-max": {
        "line": "the row maximum is not subtracted before exp",
        "predict": "e^x leaves fp32 at x = 88.7 and fp16 at x = 11.09. In which tile and in "
                   "which queries does it start? What do those before it look like?",
        "happens": "Nothing, as long as every e^x fits: softmax does not need the maximum. "
                   "From the first p that does not, Inf, and o / l = Inf / Inf is NaN, for "
                   "that query only. A query of which just the sum overflows gets o / Inf = "
                   "0, and no NaN warns.",
        "why": "Subtracting m changes nothing on paper: e^(x - m) / sum e^(x - m). It "
               "keeps every p between 0 and 1, whatever the scores are. The sum "
               "overflows ln n earlier than one term, where it lives in the same type.",
        "caught": "A test at a larger score scale (--scale 30), and a checker that a NaN "
                  "fails: NaN > bound is false, so ours asks !(error <= bound).",
        "demos": [
            {"chapters": ("01",), "command": "softmax", "x": [1, 2, 88.8], "symptom": {"nan": 1},
             "fine": [{"x": [1, 2, 88.7]}]},
            {"chapters": ("02",), "ramp": True, "shape": [1, 1, 16, 256, 4], "scale": 0.5,
             "options": ["--block-q", "16", "--block-kv", "16"],
             "symptom": {"nan": 16, "tile": 11},
             "fine": [{"scale": 0.3}, {"scale": 0.04, "dtype": "f16"}]},
            {"chapters": tuple(kernel for kernel in KERNELS if kernel != "17"),
             "shape": [1, 1, 64, 256, 64], "scale": 30, "symptom": {"nan": 64},
             "fine": [{"scale": 1}]},
            {"chapters": ("17",), "shape": [1, 1, 64, 256, 64], "scale": 60,
             "symptom": {"nan": 64}, "fine": [{"scale": 1}]},
        ],
    },
    "no-rescale": {
        "line": "l and o are not moved to the new maximum",
        "predict": "Each tile subtracts its own maximum, so nothing overflows. l and o are "
                   "added up as they are. How wrong is the result: everywhere, or in some "
                   "queries?",
        "happens": "Finite, no warning, wrong. At scale 0.3 by 1 %, which a tolerance of 2 % "
                   "lets through; at scale 3 by 60 %. With one tile it is right. A model that is "
                   "trained with it learns less, and says nothing.",
        "why": "Tile t counts e^(M - m_t) times too much, M being the maximum of all "
               "tiles. If the tile maxima hardly differ, neither does the result; the "
               "sharper the softmax, the more they differ.",
        "caught": "More than one tile, scores of more than one scale, and a bound that "
                  "comes from the type and not from taste: twice the error of plain "
                  "attention.",
        "demos": [
            {"chapters": ("01",), "command": "softmax", "options": ["--algorithm", "online"],
             "x": [1, 2, 3, 4, 5, 6], "symptom": {"wrong": 0.1},
             "fine": [{"x": [6, 5, 4, 3, 2, 1]}]},
            {"chapters": ("02",), "shape": [1, 1, 64, 1024, 64], "symptom": {"wrong": 0.1},
             "fine": [{"shape": [1, 1, 64, 64, 64]}, {"options": ["--block-kv", "1024", "--block-q", "16"]}]},
            {"chapters": KERNELS, "shape": [1, 1, 64, 256, 64], "symptom": {"wrong": 0.3},
             "fine": [{"shape": [1, 1, 64, 32, 64]}]},
            {"chapters": ("20",), "run": "train --steps 1", "symptom": {"wrong": 2e-4},
             "fine": [{"run": "train --steps 1 --block 64"}]},
            {"chapters": ("17f",), "ramp": True, "shape": [1, 1, 64, 512, 64], "scale": 0.08,
             "symptom": {"wrong": 0.03}},
        ],
    },
    "max-starts-at-zero": {
        "line": "m starts at 0 instead of -inf",
        "predict": "m starts at 0 instead of -inf. All scores here lie far below 0. NaN, "
                   "wrong, or right?",
        "happens": "Where every score of a query lies below -104, e^(x - 0) rounds to 0: "
                   "0/0. Above that, nothing at all.",
        "why": "Softmax does not mind which number is subtracted, as long as something "
               "survives. A maximum that starts at 0 is right for every row with a score "
               "above 0, which is nearly every row anybody tests with.",
        "caught": "A test with very negative scores, and one with a query that sees no key: "
                  "there the row's m is no longer -inf, so 0/0 is not recognised as an "
                  "empty row.",
        "demos": [
            {"chapters": ("02",), "shape": [1, 1, 64, 32, 64], "scale": -200,
             "symptom": {"nan": 64}, "fine": [{"scale": 1}, {"scale": -1}]},
        ],
    },
    "tile-relative-mask": {
        "line": "the causal mask counts from the tile's corner",
        "predict": "The causal mask compares positions inside the tile. Which queries come "
                   "out right?",
        "happens": "The first tile of queries is right. From the second on only the last "
                   "query of each tile is: it sees the whole of every tile, in relative "
                   "positions as in true ones.",
        "why": "A tile does not know where it is. Query i of a tile is allowed keys 0 to "
               "i of every tile to the left, instead of all of them.",
        "caught": "A causal test longer than one tile (64 queries in chapter 02, 16 in chapter "
                  "20). Up to there nothing is wrong.",
        "demos": [
            {"chapters": ("02",), "shape": [1, 1, 192, 192, 32], "causal": True,
             "symptom": {"wrong": 0.1},
             "fine": [{"causal": False}, {"shape": [1, 1, 64, 64, 32]}]},
            {"chapters": ("20",), "run": "train --steps 1", "symptom": {"wrong": 5e-3},
             "fine": [{"run": "train --steps 1 --block 64"}]},
        ],
    },
    "mask-off-by-one": {
        "line": "a query sees one key too many: the one it has to guess",
        "predict": "Query i may look at keys 0 to i + 1, forward and backward alike. The model is to "
                   "guess character i + 1. What does the loss do, and do the gradients agree with "
                   "central differences?",
        "happens": "Central differences agree: the gradients are those of this model, which is shown "
                   "the answer. Held against plain attention with the right mask, they fail. "
                   "After 150 default steps the loss is lower by more than 0.3, and going on falling.",
        "why": "The key and the value of position i + 1 are made of the very character that is to be "
               "guessed. A gradient check compares the backward pass with the forward pass, and both "
               "have the same mask.",
        "caught": "A comparison with other attention, not with itself; a test that changes a later "
                  "character and looks at earlier guesses. With a context of one character there is "
                  "no later key to see.",
        "demos": [
            {"chapters": ("20",), "run": "train --steps 1", "symptom": {"wrong": 2e-3},
             "fine": [{"run": "train --steps 1 --context 1"}]},
        ],
    },
    "unmasked-tail": {
        "line": "keys past the last one, filled with zeros, are not hidden",
        "predict": "100 keys, tiles of 64: the last tile is filled up with zeros, which are "
                   "no longer hidden. What is a score of 0 worth?",
        "happens": "The result is that of attention to 28 more keys, with value 0: too small "
                   "everywhere, by a few percent. Finite.",
        "why": "Zeros are harmless in a matrix product and not in a softmax: e^(0 - m) "
               "is a weight like any other, and l counts it.",
        "caught": "A length that is no multiple of the tile; 64, 128 and 1024 are the wrong "
                  "test lengths. Under --causal with Lq = Lkv the mask hides the tail as "
                  "well.",
        "demos": [
            {"chapters": ("02",), "shape": [1, 2, 50, 100, 16], "symptom": {"wrong": 0.05},
             "fine": [{"shape": [1, 2, 50, 128, 16]}, {"causal": True}]},
            {"chapters": KERNELS[:-1], "shape": [1, 1, 64, 100, 64], "symptom": {"wrong": 0.05},
             "fine": [{"shape": [1, 1, 64, 1152, 64]}]},
        ],
    },
    "shuffle-mask-0x10": {
        "line": "the second shuffle of a quad goes to lane ^ 0x10 instead of lane ^ 2",
        "predict": "The second shuffle of a quad exchanges with lane ^ 0x10 instead of lane "
                   "^ 2. No race, no overflow. What does a lane's maximum mean now?",
        "happens": "Finite and wrong, by 1 and more. The four lanes of a row disagree about "
                   "its maximum and its sum.",
        "why": "Lane 16 further holds another row, 4 further down. A lane ends with the "
               "maximum of half of its own row and half of another's; the other half of "
               "its row does not.",
        "caught": "Any comparison with a reference, even of V = 1: the weights no longer sum "
                  "to 1. The hazards stay silent, as nothing races.",
        "demos": [
            {"chapters": KERNELS, "shape": [1, 1, 64, 128, 64], "symptom": {"wrong": 0.5}},
            {"chapters": ("17f",), "ramp": True, "shape": [1, 1, 64, 512, 64], "scale": 0.08,
             "symptom": {"wrong": 0.03}},
        ],
    },
    "conditional-commit": {
        "line": "no commit when there was nothing to copy",
        "predict": "When there is no next tile to copy, no group is committed. wait_group "
                   "counts groups. At which tile does it start to matter?",
        "happens": "At the last tile: the wait lets one group stay in flight, and now the "
                   "tile that is needed is that group.",
        "why": "wait_group N means: all but the N youngest groups have landed. An empty "
               "group keeps the count; skipping it makes the youngest group the one that "
               "is read next.",
        "caught": "The emulator, on any length: read_before_wait. On a GPU the copy has "
                  "often landed by then, and the numbers are right on most days.",
        "demos": [
            {"chapters": PIPELINED, "shape": [1, 1, 64, 256, 64],
             "symptom": {"nan": 1, "hazard": "read_before_wait", "at": "V_rmem, V_smem", "other": "load_tile<BLOCK_KV"}},
        ],
    },
    "missing-wait": {
        "line": "K is read without waiting for its copy",
        "predict": "K's copy is started, and read without a wait. The barrier behind it is "
                   "still there. Is a barrier not enough?",
        "happens": "read_before_wait: the bytes are still in flight, and every output is "
                   "NaN, as the memory held NaN before. In chapter 16 the numbers are right: "
                   "its second try computes rows of O that are not finite from global memory. "
                   "In chapter 17 they are finite: 8-bit integers have no NaN, and all of its "
                   "bits are a -1.",
        "why": "A barrier waits for threads. cp.async is not a thread: only "
               "cp_async_wait of the thread that issued it says that its bytes have "
               "landed. Nor is chapter 12's copy engine: there the mbarrier says it.",
        "caught": "The emulator, which delivers as late as the program allows. On a GPU it "
                  "depends on how busy the memory is.",
        "demos": [
            {"chapters": CP_ASYNC[:-1], "shape": [1, 1, 64, 256, 64],
             "symptom": {"nan": 64, "hazard": "read_before_wait", "at": "K_rmem, K_smem", "other": "load_tile<BLOCK_KV"}},
            {"chapters": ("17",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"wrong": 0.03, "hazard": "read_before_wait", "at": "K_rmem, K_smem",
                         "other": "load_tile<BLOCK_KV"}},
            {"chapters": ("12",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"nan": 64, "hazard": "read_before_wait", "at": "K_rmem, KTile", "other": "tma_load_4d"}},
            {"chapters": ("13", "14", "15"), "shape": [1, 1, 64, 256, 64],
             "symptom": {"nan": 64, "hazard": "read_before_wait", "at": "wgmma<bf16>(S_rmem", "other": "tma_load_4d"}},
            {"chapters": ("16",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "read_before_wait", "at": "wgmma<bf16>(S_rmem", "other": "tma_load_5d"}},
            {"chapters": ("17f",), "shape": [1, 1, 128, 512, 128],
             "symptom": {"hazard": "read_before_wait", "at": "wgmma", "other": "tma_load"}},
        ],
    },
    "missing-barrier": {
        "line": "one block_sync of the main loop is left out",
        "predict": "Each thread has waited for its own copies. One block_sync is gone. Whose "
                   "bytes are read too early, or overwritten too early?",
        "happens": "In chapters 03 to 06 a warp reads what another warp's copies have not "
                   "brought yet (read_before_barrier). From 07 on the next V overwrites "
                   "the one that a slower warp still reads (overwrite_while_read).",
        "why": "wait_group speaks for the thread that calls it. What the other 127 "
               "threads copied is there after a barrier, and what they still read is "
               "free after one.",
        "caught": "The emulator, under every order of the threads. On a GPU the numbers may "
                  "be right on a lucky day.",
        "demos": [
            {"chapters": CP_ASYNC[:4], "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "read_before_barrier", "at": "K_rmem, K_smem", "other": "load_tile<BLOCK_KV"}},
            {"chapters": CP_ASYNC[4:], "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "overwrite_while_read", "at": "(V_smem, V, ", "other": "V_rmem, V_smem"}},
            {"chapters": ("12",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "overwrite_while_read", "at": "tma_load_4d", "other": "V_rmem"}},
            {"chapters": ("13",), "shape": [1, 1, 128, 400, 64],
             "symptom": {"hazard": "overwrite_while_read", "at": "tma_load_4d", "other": "wgmma<bf16>(S_rmem"}},
        ],
    },
    "swizzle-one-side": {
        "line": "K is written swizzled and read row-major",
        "predict": "K is written with XORed chunks and read without. Every address is inside "
                   "the tile. NaN, or numbers?",
        "happens": "Numbers, finite and wrong: K's columns are shuffled within each row, "
                   "differently in each of 8 rows.",
        "why": "A swizzle is a permutation of where things lie. Applied on one side it "
               "is a permutation of the data, and q . k pairs the wrong columns.",
        "caught": "Any comparison with a reference, on random K. If all columns of K are "
                  "equal nothing shows.",
        "demos": [
            {"chapters": SWIZZLED, "shape": [1, 1, 64, 128, 64], "symptom": {"wrong": 0.2}},
            {"chapters": ("17f",), "shape": [1, 1, 128, 512, 128], "symptom": {"wrong": 0.1}},
        ],
    },
    "wait-too-few": {
        "line": "the wait for V lets one group too many stay in flight",
        "predict": "The wait for V lets one group more stay in flight. Which tile is read "
                   "too early: the last, the first, all?",
        "happens": "All: at each wait the group that is one too many is just the V that "
                   "comes next.",
        "why": "The number in wait_group is how many may be missing. Count the groups "
               "that are younger than the one you need; that is the number, and not one "
               "more.",
        "caught": "The emulator: read_before_wait, at the ldmatrix of V.",
        "demos": [
            {"chapters": PIPELINED, "shape": [1, 1, 64, 256, 64],
             "symptom": {"nan": 64, "hazard": "read_before_wait", "at": "V_rmem, V_smem", "other": "load_tile<BLOCK_KV"}},
        ],
    },
    "divergent-barrier": {
        "line": "only warp 0 arrives at one block_sync",
        "predict": "Only warp 0 arrives at one of the barriers. Does the kernel hang?",
        "happens": "The emulator says barrier_divergence, and where both sides met; in chapters 12 "
                   "and 13, which have one barrier a tile, deadlock. On real "
                   "GPUs it need not hang: the counter of arrivals is fed by the next "
                   "barrier, and the kernel runs to its end. On an H200 chapters 03 to 08 "
                   "all did, with wrong numbers.",
        "why": "__syncthreads counts arrivals, not places. Warps that skip one barrier "
               "arrive at the next, and are taken for those that are missing at this "
               "one.",
        "caught": "The emulator: a warp waits at the end for threads that have returned, and "
                  "warps had met from different lines. On a GPU: compute-sanitizer --tool "
                  "synccheck.",
        "demos": [
            {"chapters": CP_ASYNC, "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "barrier_divergence", "at": "block_sync", "other": "block_sync"}},
            {"chapters": ("12",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "deadlock", "at": "block_sync", "other": ""}},
            {"chapters": ("13",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "deadlock", "at": "wgmma<bf16>(S_rmem", "other": "block_sync"}},
        ],
    },
    "state-reset-per-block": {
        "line": "m, l and o start again in the tile that the mask cuts",
        "predict": "Kernels treat tiles that the causal mask cuts in a loop of their own. "
                   "Here that loop starts m, l and o again. Which queries notice?",
        "happens": "The first tile of queries is right: it has no earlier keys to forget. "
                   "Every later query attends to its own tile only. Finite, smooth, wrong.",
        "why": "The state belongs to the query, not to the loop. Two loops over its keys "
               "share one state.",
        "caught": "A causal test longer than one tile, held against a reference. Without "
                  "--causal, and up to 64 queries, nothing is wrong.",
        "demos": [
            {"chapters": ("02",), "shape": [1, 1, 192, 192, 32], "causal": True,
             "symptom": {"wrong": 0.5},
             "fine": [{"causal": False}, {"shape": [1, 1, 64, 64, 32]}]},
        ],
    },
    "max-stuck-after-masked-tile": {
        "line": "a tile of which a query sees nothing lifts its m to 0",
        "predict": "A tile hides all its keys from a query. The number 0, meant for the "
                   "subtraction only (-inf - (-inf) is NaN), is stored as that query's "
                   "maximum. When does it hurt?",
        "happens": "NaN for queries that meet a hidden tile first and low scores after it; "
                   "right for all others. With ordinary scores, right everywhere.",
        "why": "A maximum only grows. Stuck at 0 it is no longer a score's, and e^(x - "
               "0) of scores below -104 is 0 for all of them: 0/0.",
        "caught": "A sliding window that is shorter than a tile, with very negative scores; "
                  "and a query that sees no key at all.",
        "demos": [
            {"chapters": ("02",), "shape": [1, 1, 256, 256, 64], "scale": -200,
             "options": ["--modifier", "window", "--window", "32"], "symptom": {"nan": 500},
             "fine": [{"scale": 1}, {"options": [], "causal": True}]},
        ],
    },
    "finite-sentinel": {
        "line": "a hidden key scores -5e4 instead of -inf",
        "predict": "Hidden keys score -5e4 instead of -inf. e^-50000 is 0 in any type. Where "
                   "is it not the same?",
        "happens": "A query that sees no key gets the average of V instead of 0, and a "
                   "log-sum-exp of -49996 instead of -inf. With scores below -5e4 hidden "
                   "keys win.",
        "why": "Softmax subtracts the maximum first. If all keys are hidden the maximum "
               "is the sentinel, and e^(-5e4 - (-5e4)) = 1. Only -inf stays -inf "
               "whatever is subtracted.",
        "caught": "A shape with more queries than keys under --causal, and a checker that "
                  "looks at the log-sum-exp too.",
        "demos": [
            {"chapters": ("02",), "shape": [1, 1, 70, 10, 8], "causal": True,
             "symptom": {"wrong": 0.05},
             "fine": [{"shape": [1, 1, 192, 192, 32]}, {"causal": False}]},
        ],
    },
    "sum-in-16-bit": {
        "line": "l is summed in the element type instead of fp32",
        "predict": "l is a bf16. A bf16 has 8 significant bits. 4096 keys that weigh about "
                   "the same: what does l say at the end?",
        "happens": "l stops growing, near 256 if the weights are near 1, and the result is "
                   "too large by what is missing from it. The longer the row, the worse.",
        "why": "256 + 1 = 256 in bf16: the next number is 258, and a half rounds to "
               "even. In fp16 the same at 2048. Products may be 16-bit, sums may not.",
        "caught": "A test with long rows (1024 keys and more) in the 16-bit type, with flat "
                  "scores (--scale 0.3).",
        "demos": [
            {"chapters": ("02",), "shape": [1, 1, 64, 4096, 64], "dtype": "bf16", "scale": 0.3,
             "symptom": {"wrong": 1}, "fine": [{"dtype": "f32"}]},
        ],
    },
    "no-stagger": {
        "line": "a systolic array is fed in all rows at once",
        "predict": "Row k of the array should be fed k cycles after row 0. Now all rows start in "
                   "cycle 0. Does the array wait, stop, or go on? Does it take more cycles, or "
                   "fewer?",
        "happens": "It goes on, and is done K - 1 cycles earlier. Every sum mixes rows of A: finite, "
                   "and wrong.",
        "why": "A sum needs k cycles to come down to row k, and nothing there asks whose "
               "activation it meets. When two numbers meet was decided when they were sent.",
        "caught": "Any product with K > 1 held against a plain one. With K = 1 there is one row, "
                  "and nothing to stagger.",
        "demos": [
            {"chapters": ("18",), "run": "matmul --m 2 --k 3 --n 2 --trace",
             "symptom": {"wrong": 1},
             "fine": [{"run": "matmul --m 5 --k 1 --n 7"}]},
            {"chapters": ("18",), "run": "matmul --m 3 --k 4 --n 3 --dataflow output --trace",
             "symptom": {"wrong": 1},
             "fine": [{"run": "matmul --m 1 --k 9 --n 1 --dataflow output"}]},
        ],
    },
    "mask-every-tile": {
        "line": "tiles that every row sees whole are masked too",
        "predict": "512 causal queries and keys: 20 tiles are visited, and the diagonal runs "
                   "through 8 of them. What changes in the output?",
        "happens": "Nothing: a mask that hides nothing changes nothing. Twelve tiles more pay "
                   "for a comparison of each score.",
        "why": "Most tiles lie wholly below the diagonal. The loop that visits them needs no "
               "mask, and knows that at compile time.",
        "caught": "A counter: tiles_masked of --profile --json. The output cannot tell.",
        "demos": [
            {"chapters": ("09",), "shape": [1, 1, 512, 512, 128], "causal": True,
             "options": ["--profile"], "symptom": {"masked": 20}},
        ],
    },
    "top-left": {
        "line": "query i stands at key i, not at key i + Lkv - Lq",
        "predict": "100 queries, 130 keys. Which key is the last that query 0 should see, and "
                   "which one does it see now?",
        "happens": "Finite and wrong, in every row. With as many queries as keys, nothing.",
        "why": "New queries follow keys that are already there: the last query stands at the "
               "last key. FlashAttention aligns like that since 2.1; PyTorch's is_causal does not.",
        "caught": "A test with Lq < Lkv, and one with a single query.",
        "demos": [
            {"chapters": ("09", "16"), "shape": [1, 1, 100, 130, 64], "causal": True,
             "symptom": {"wrong": 0.1}, "fine": [{"shape": [1, 1, 100, 100, 64]}]},
        ],
    },
    "window-off-by-one": {
        "line": "the farthest key of a window is left out",
        "predict": "A window of 20 keys before the query's own. How many keys has a row then, "
                   "and from which row on is one missing?",
        "happens": "Finite and a little wrong, from row 20 on: one key of 21 is missing.",
        "why": "Both sides of a window are inclusive: left + 1 + right keys.",
        "caught": "The log-sum-exp of each row, held to its own bound: one key of many hardly "
                  "moves O.",
        "demos": [
            {"chapters": ("09",), "shape": [1, 1, 100, 100, 64], "options": ["--window", "20,0"],
             "symptom": {"wrong": 0.1}, "fine": [{"options": ["--window", "-1,0"]}]},
        ],
    },
    "modulo-heads": {
        "line": "head h takes the K and V of head h modulo their number",
        "predict": "Four heads of Q, two of K and V. Which heads of Q get the wrong ones?",
        "happens": "Heads 1 and 2 are finite and wrong, heads 0 and 3 right.",
        "why": "Heads that share are neighbours: 0 and 1 share the first, 2 and 3 the second. "
               "So the number is divided by the size of a group.",
        "caught": "Two or more heads of K, and fewer than of Q. With one (MQA) or as many (MHA) "
                  "both rules agree.",
        "demos": [
            {"chapters": ("09",), "shape": [1, 4, 40, 50, 64], "options": ["--kv-heads", "2"],
             "symptom": {"wrong": 0.5},
             "fine": [{"options": ["--kv-heads", "1"]}, {"options": ["--kv-heads", "4"]}]},
        ],
    },
    "unguarded-max": {
        "line": "-inf is subtracted from -inf where a row has seen no key",
        "predict": "200 causal queries, 70 keys: rows 0 to 129 see nothing. Which of them "
                   "become NaN?",
        "happens": "Rows 128 and 129 are NaN. Rows 0 to 127 are a block of their own, which "
                   "visits no tile.",
        "why": "m stays -inf, and e^(-inf - (-inf)) is e^NaN. Subtracting 0 instead gives "
               "e^-inf = 0.",
        "caught": "More queries than keys under a causal mask, by a number that is no multiple "
                  "of the tile.",
        "demos": [
            {"chapters": ("09",), "shape": [1, 1, 200, 70, 64], "causal": True,
             "symptom": {"nan": 128}, "fine": [{"shape": [1, 1, 128, 128, 64]}]},
        ],
    },
    "softcap-after-mask": {
        "line": "hidden scores pass through the softcap",
        "predict": "c tanh(s / c) for s = -inf: what does a hidden key score now?",
        "happens": "Finite and wrong: each hidden key scores -c. With c = 1.5 it weighs as much "
                   "as many a visible one.",
        "why": "tanh(-inf) is -1. A modifier must come before the mask.",
        "caught": "A small softcap. At 50, as models have it, hidden keys weigh e^-50.",
        "demos": [
            {"chapters": ("09",), "shape": [1, 1, 100, 100, 64], "causal": True,
             "options": ["--softcap", "1.5"], "symptom": {"wrong": 0.5},
             "fine": [{"options": []}]},
        ],
    },
    "late-sequence": {
        "line": "cu_seqlens is read one element late",
        "predict": "Three numbers say where two sequences begin and end. What does the second "
                   "block read?",
        "happens": "The first sequence's rows are never written, and the last block reads "
                   "behind the end of both arrays.",
        "why": "Sequence n is rows cu_seqlens[n] up to cu_seqlens[n + 1].",
        "caught": "An output that starts as NaN, and a memory checker; on a GPU a length that "
                  "is garbage may look like a short sequence.",
        "demos": [
            {"chapters": ("09",), "shape": [1, 2, 130, 123, 64],
             "options": ["--cu-seqlens-q", "0,70,130", "--cu-seqlens-k", "0,90,123"],
             "symptom": {"hazard": "out_of_bounds", "at": "load_global", "other": ""}},
        ],
    },
    "no-d": {
        "line": "D is not subtracted from dP: dS = P o dP",
        "predict": "dS = P o (dP - D) loses its D. dV = P.T dO does not use dS, dQ and dK do. By how "
                   "much are they wrong: by a little, or by more than they are large?",
        "happens": "dV is right. dQ and dK are finite and wrong by several times their own size. In "
                   "training the loss comes down at first, and then stays where it is.",
        "why": "The weights of a row add up to 1, so what moves them moves them against each other: "
               "a row of dS adds up to 0. Without D it adds up to D, and dQ is too large by "
               "scale D times the average key.",
        "caught": "Any ordinary input. Where D is 0, as with equal values and a dO that adds up to "
                  "0, nothing is wrong.",
        "demos": [
            {"chapters": ("10",), "run": "--algorithm tiled --shape 1,1,100,100,64",
             "symptom": {"wrong": 1}},
            {"chapters": ("20",), "run": "train --steps 1", "symptom": {"wrong": 5e-4}},
        ],
    },
    "no-scale-in-dk": {
        "line": "dK is not multiplied by the scale of the scores",
        "predict": "S = scale Q K.T, so scale belongs to dQ and to dK. It is missing in dK. By which "
                   "factor is dK wrong for heads of size D, and what else is?",
        "happens": "dK is sqrt(D) times too large: 8 times in chapter 10's run, 4 times in chapter "
                   "20's. dQ and dV are right. A training run goes on, with another step size for "
                   "the keys.",
        "why": "Kernels leave the scale out of dS and multiply once at the end: at two places, and "
               "one is easily forgotten.",
        "caught": "A check of dK by itself, at a scale that is not 1: with D = 1 nothing shows.",
        "demos": [
            {"chapters": ("10",), "run": "--algorithm tiled --shape 1,1,100,100,64",
             "symptom": {"wrong": 1},
             "fine": [{"run": "--algorithm tiled --shape 1,1,100,100,1 --dtype f32"}]},
            {"chapters": ("20",), "run": "train --steps 1", "symptom": {"wrong": 1e-4},
             "fine": [{"run": "train --steps 1 --heads 64"}]},
        ],
    },
    "unmasked-backward": {
        "line": "hidden keys, and those past the end, are hidden in the forward pass only",
        "predict": "LSE knows nothing of a hidden key, so e^(S - LSE) may be above 1. How far above? "
                   "And what of the keys past the end, of which K and V are zeros?",
        "happens": "Under a causal mask all three gradients are wrong, by thousands; with sharper "
                   "scores Inf. Past the end nothing happens, until every score of a row lies "
                   "below -88.7: e^(0 - LSE) is Inf, times a K of 0 is NaN.",
        "why": "P is at most 1 because LSE contains each key that is seen. For one that is not, "
               "nothing bounds e^(S - LSE). Zeros in K make a term 0, unless it is 0 times Inf.",
        "caught": "A causal input; for the end, a ragged length with very negative scores.",
        "demos": [
            {"chapters": ("10",), "run": "--algorithm tiled --shape 1,1,100,100,64 --causal",
             "symptom": {"wrong": 1},
             "fine": [{"run": "--algorithm tiled --shape 1,1,100,100,64"}]},
            {"chapters": ("10",), "run": "--algorithm tiled --shape 1,1,20,1,64 --input-scale -60",
             "symptom": {"nan": 1},
             "fine": [{"run": "--algorithm tiled --shape 1,1,20,1,64 --input-scale -60 "
                              "--block-kv 1"}]},
        ],
    },
    "lse-of-empty-row": {
        "line": "a row that sees no key keeps its LSE of -inf",
        "predict": "130 causal queries, 100 keys: rows 0 to 29 see nothing, and their LSE is -inf. All "
                   "their scores are -inf too. What is P, and which gradients does it reach?",
        "happens": "-inf - (-inf) is NaN: in dQ for the 30 rows, and in dK and dV for all 64 keys "
                   "of each tile that one of those rows meets.",
        "why": "dV = P.T dO and dK = dS.T Q sum over queries, and one NaN is enough. With 0 in "
               "place of the -inf, P of an empty row is e^-inf = 0.",
        "caught": "More queries than keys under a causal mask, by a number that is no multiple of "
                  "the tile: whole empty tiles are skipped, and hide it.",
        "demos": [
            {"chapters": ("10",), "run": "--algorithm tiled --shape 1,1,130,100,64 --causal",
             "symptom": {"nan": 30 * 64 + 2 * 64 * 64},
             "fine": [{"run": "--algorithm tiled --shape 1,1,164,100,64 --causal"},
                      {"run": "--algorithm tiled --shape 1,1,100,130,64 --causal"}]},
        ],
    },
    "bf16-dq": {
        "line": "dQ is added up in bf16 instead of fp32, over the key tiles",
        "predict": "dQ is a sum over the key tiles, kept in bf16 between them. 2048 keys in 32 tiles, "
                   "or in 2048: does the check see it?",
        "happens": "32 tiles add a seventh to the error, which the check lets through: twice plain "
                   "attention's is allowed. 2048 tiles make it four times as large.",
        "why": "Each store rounds to 8 bits. Terms of both signs make the errors a random walk. If "
               "all had one sign, the sum would stand still at 256 terms: the next one is half "
               "a unit in its last place.",
        "caught": "Many tiles. And a comparison in fp32 that expects fp32's error.",
        "demos": [
            {"chapters": ("10",), "run": "--algorithm columns --shape 1,1,64,2048,64",
             "symptom": {"wrong": 0.005},
             "fine": [{"run": "--algorithm tiled --shape 1,1,64,2048,64"}]},
        ],
    },
    "late-zero": {
        "line": "the sum of dQ becomes 0 in the kernel that adds to it, not in the one before",
        "predict": "Blocks add their parts of dQ to a sum in memory. The block of the first keys sets "
                   "it to 0 before it adds. What does that block not know?",
        "happens": "global_race. On the emulator the numbers are right, as it runs that block first.",
        "why": "Nothing orders two blocks of one kernel. Another may have added already, and its part "
               "is lost. The end of a kernel orders everything: so preprocess sets the zeros.",
        "caught": "The emulator, under every schedule. A GPU that starts the blocks in order may be "
                  "right for a long time.",
        "demos": [
            {"chapters": ("10",), "run": "--shape 1,1,64,256,64 --device emulator",
             "symptom": {"hazard": "global_race", "at": "store_global", "other": "atomic_add"},
             "fine": [{"run": "--shape 1,1,64,128,64 --device emulator"}]},
        ],
    },
    "unordered-dq": {
        "line": "--deterministic waits for nobody's turn",
        "predict": "Blocks add to dQ in whatever order they come. Atomic additions, so nothing is lost. "
                   "What is different from run to run, and does the check see it?",
        "happens": "The last bits of dQ. Each result is as near to float64 as the others, so the check "
                   "passes.",
        "why": "(a + b) + c is not a + (b + c) in fp32. Who is first depends on which block ran "
               "when.",
        "caught": "The same input twice, compared bit for bit: here under two schedules, --schedule-seed "
                  "1 and 2, with --dq to keep them.",
        "demos": [
            {"chapters": ("10",),
             "run": "--shape 1,1,130,520,64 --deterministic --schedule-seed 1 --device emulator",
             "symptom": {"silent": True}},
        ],
    },
    "overlapping-splits": {
        "line": "a split begins with the last key of the one before",
        "predict": "One key in two splits, so it weighs twice. 200 keys in 2 splits: does the check "
                   "see it? And 8192 keys?",
        "happens": "At 200 keys O is wrong by 0.014, where 0.0086 is allowed. At 8192 keys the check "
                   "passes: one weight of 8192 too many is less than bf16 rounds away.",
        "why": "The combination trusts the splits. It sees one log-sum-exp each, and cannot tell that "
               "a key is in two of them.",
        "caught": "Short caches with many splits, compared in LSE too. A test with long caches only "
                  "proves nothing here.",
        "demos": [
            {"chapters": ("11",), "run": "--shape 1,4,1,200,64 --splits 2 --device emulator",
             "symptom": {"wrong": 0.01},
             "fine": [{"run": "--shape 1,4,1,8192,64 --splits 2 --device emulator"},
                      {"run": "--shape 1,4,1,200,64 --splits 1 --device emulator"}]},
        ],
    },
    "no-rescale-in-combine": {
        "line": "all splits weigh the same when their results are combined",
        "predict": "O becomes the average of the splits' O. When is that nearly right, and what of LSE?",
        "happens": "With 2 splits of 200 keys O is wrong by 0.1. With 4 of 2048 keys by 0.011 only, and "
                   "4 of 256 numbers fail: the splits of a long, even cache weigh nearly the same.",
        "why": "The weight of a split is e^(its LSE - the LSE of all). If the scores have no trend, "
               "these differ by chance only, the less the longer the splits are.",
        "caught": "Splits that differ: one with the largest score, a short last one. LSE, which is "
                  "wrong in every row.",
        "demos": [
            {"chapters": ("11",), "run": "--shape 1,4,1,200,64 --splits 2 --device emulator",
             "symptom": {"wrong": 0.05},
             "fine": [{"run": "--shape 1,4,1,200,64 --splits 1 --device emulator"}]},
        ],
    },
    "silent-empty-split": {
        "line": "a split that has no key writes no log-sum-exp",
        "predict": "Sequences of 700 and 100 keys, 3 splits each. The second one's last two have "
                   "nothing to do, and do nothing. What does the kernel that combines read?",
        "happens": "NaN in the second sequence. Nobody wrote there, and this memory held NaN; it could "
                   "have held the last call's numbers, which look right.",
        "why": "The number of splits is the batch's, the length is the sequence's. A split without a "
               "key has to say so: LSE -inf, and its weight is e^-inf = 0.",
        "caught": "A batch of long and short sequences, with a workspace that is poisoned first.",
        "demos": [
            {"chapters": ("11",),
             "run": "--shape 2,4,1,700,64 --cache-seqlens 700,100 --splits 3 --device emulator",
             "symptom": {"nan": 4 * 64},
             "fine": [{"run": "--shape 2,4,1,700,64 --splits 3 --device emulator"}]},
        ],
    },
    "shared-partial": {
        "line": "all splits write their results to the first one's place",
        "predict": "Two blocks have a split each of the same row, and store O and LSE at the same "
                   "address. Which one is left? What does the emulator say?",
        "happens": "global_race: block 0 writes what block 1 writes. Here NaN as well, as the second "
                   "place is read and nobody wrote it.",
        "why": "Blocks of one kernel run in any order, and nothing waits for anything. Each needs a "
               "place of its own until the next kernel.",
        "caught": "The emulator, which watches global memory. compute-sanitizer does not: its racecheck "
                  "looks at shared memory.",
        "demos": [
            {"chapters": ("11",), "run": "--shape 1,2,1,300,64 --splits 2 --device emulator",
             "symptom": {"hazard": "global_race", "at": "store_global", "other": "store_global"},
             "fine": [{"run": "--shape 1,2,1,300,64 --splits 1 --device emulator"}]},
        ],
    },
    "page-off-by-one": {
        "line": "a key is looked up one page too far in the table",
        "predict": "Key 0 is looked for in the second page, and the keys of the last page in the entry "
                   "behind it. What stands there?",
        "happens": "out_of_bounds: behind a sequence's pages the table holds anything, here a number "
                   "far from every page. A GPU may stop there, or read another sequence's keys.",
        "why": "A table has as many columns as the longest sequence needs, and nobody clears what a "
               "shorter one leaves. Wrong keys from a page that exists look like a wrong answer of the "
               "model.",
        "caught": "Entries that point to no page, where none is needed; pages in a random order, as in "
                  "0, 1, 2, … a page too far is still a neighbour.",
        "demos": [
            {"chapters": ("11",), "run": "--shape 1,2,1,200,64 --page-size 16 --device emulator",
             "symptom": {"hazard": "out_of_bounds", "at": "cp_async_16", "other": ""},
             "fine": [{"run": "--shape 1,2,1,200,64 --device emulator"}]},
        ],
    },
    "stale-values": {
        "line": "rows of V behind the last key are copied, whatever they hold",
        "predict": "100 keys in a page of 256. Keys behind the last are masked: weight 0. The page was "
                   "somebody else's, and its other rows hold NaN. What is 0 times NaN?",
        "happens": "NaN, in every number of O. LSE is right: the scores were masked.",
        "why": "The mask makes P exactly 0, and a product of 0 and a number is 0. NaN and Inf are no "
               "numbers. Zeros instead of what lies there cost nothing: the copy writes them by itself.",
        "caught": "A cache whose unused rows hold NaN. Fresh memory, which is mostly zeros, hides it "
                  "until a page is used again.",
        "demos": [
            {"chapters": ("11",),
             "run": "--shape 1,2,1,256,64 --page-size 256 --cache-seqlens 100 --device emulator",
             "symptom": {"nan": 2 * 64},
             "fine": [{"run": "--shape 1,2,1,256,64 --page-size 256 --device emulator"}]},
        ],
    },
    "overflowing-merge": {
        "line": "states are merged by e^(lse_b - lse) as it is",
        "predict": "lse' = lse + log(1 + e^(lse_b - lse)), and O likewise: the formula as one writes it "
                   "down. Two ranks' parts differ in LSE by 100. What is e^100 in fp32?",
        "happens": "Inf above 88.7, Inf / Inf is NaN. Only where a later rank's keys matter far more than "
                   "all before: with ordinary scores every test passes.",
        "why": "One of the two differences is negative. sigmoid(lse_b - lse) = 1 / (1 + e^(lse - lse_b)) "
               "turns an overflow into 1 / Inf = 0, and the larger LSE goes in front of the logarithm.",
        "caught": "Sharp scores (--input-scale 100), with the important keys on the last rank.",
        "demos": [
            {"chapters": ("19",),
             "run": "--shape 1,2,256,256,32 --schedule overlap --input-scale 100",
             "symptom": {"nan": 1000},
             "fine": [{"run": "--shape 1,2,256,256,32 --schedule overlap --input-scale 20"}]},
        ],
    },
    "local-positions": {
        "line": "keys that have travelled are masked as one's own were",
        "predict": "A rank computes the causal mask from its own positions, whosever keys it looks at. "
                   "Which steps are wrong, and in which direction?",
        "happens": "All steps but the first: every visiting tile gets the triangle of the diagonal one. "
                   "Queries see keys of the future, and miss half of the past.",
        "why": "What has a position keeps it when it travels: masks, windows, ALiBi, rotary embeddings. "
               "With zigzag a rank has two pieces, and their positions have a gap.",
        "caught": "Any causal run of two ranks against one. Without a mask nothing is wrong.",
        "demos": [
            {"chapters": ("19",), "run": "--shape 1,2,256,256,32 --schedule overlap --causal",
             "symptom": {"wrong": 1},
             "fine": [{"run": "--shape 1,2,256,256,32 --schedule overlap"},
                      {"run": "--shape 1,2,256,256,32 --schedule overlap --causal --ranks 1"}]},
        ],
    },
    "bf16-hops": {
        "line": "O is rounded to bf16 from step to step",
        "predict": "O is bf16 in the end anyway. Round it after each step: is the error twice as large? "
                   "With 2 ranks, with 16?",
        "happens": "It grows with the number of ranks: every step rounds once more.",
        "why": "The state of chapter 02 is fp32 from the first tile to the last, whoever computes the "
               "tiles. Only the result is rounded, once.",
        "caught": "P ranks against one, in fp32, for several P. A tolerance made for bf16 lets it pass.",
        "demos": [
            {"chapters": ("19",), "run": "--shape 1,2,256,256,32 --ranks 16",
             "symptom": {"wrong": 2e-3},
             "fine": [{"run": "--shape 1,2,256,256,32 --ranks 1"}]},
        ],
    },
    "blocking-sends": {
        "line": "a rank waits until its keys have left, then receives",
        "predict": "Everybody sends to the right and waits until it is done. Then everybody receives from "
                   "the left. What happens first?",
        "happens": "deadlock: nobody receives before it has sent, and nothing is sent before somebody "
                   "receives. By MPI short messages get through, as it keeps a copy of them.",
        "why": "A send is done when its memory may be used again: when the other side has it. Post the "
               "receive first, or do not wait in between.",
        "caught": "Messages longer than MPI keeps. Or a transport that keeps none, like the threads here.",
        "demos": [
            {"chapters": ("19",), "run": "--shape 1,2,256,256,32 --schedule ring",
             "symptom": {"nan": 1000, "hazard": "deadlock", "at": "", "other": ""},
             "fine": [{"run": "--shape 1,2,256,256,32 --schedule ring --ranks 1"}]},
        ],
    },
    "one-buffer": {
        "line": "keys are received into the memory that is being sent",
        "predict": "The keys that come take the place of those that leave. Saves a buffer. What does the "
                   "next rank get, and what does this one compute with?",
        "happens": "memory_in_use, before anything is computed. By MPI nobody says a word: some keys "
                   "arrive that had already been overwritten, others are used while they change.",
        "why": "From the call that starts a message to the wait that ends it, its memory is not yours: "
               "what is sent may not change, what comes may not be read. So there are two buffers.",
        "caught": "Threads that keep account of what is in flight. By MPI, only by wrong numbers.",
        "demos": [
            {"chapters": ("19",), "run": "--shape 1,2,256,256,32 --schedule overlap",
             "symptom": {"nan": 1000, "hazard": "memory_in_use", "at": "", "other": ""},
             "fine": [{"run": "--shape 1,2,256,256,32 --schedule overlap --ranks 1"}]},
        ],
    },
    "expect-too-little": {
        "line": "an mbarrier is told of half of a tile's bytes",
        "predict": "An mbarrier is told of half of a tile's bytes. All of them come. Wrong numbers, "
                   "or something else?",
        "happens": "Nothing more: nobody gets past the first wait. More bytes have come than were "
                   "expected, the count is not zero, and the phase never ends.",
        "why": "A phase ends when as many bytes have come as were announced, not at least as "
               "many. The engine counts each byte that it writes.",
        "caught": "Any run: on a GPU it hangs. The emulator says how many bytes are too many, and "
                  "at which mbarrier.",
        "demos": [
            {"chapters": ("12",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"nan": 64, "hazard": "transaction_mismatch", "at": "mbarrier_wait(Q_full", "other": ""}},
        ],
    },
    "wrong-parity": {
        "line": "the parity of K's mbarriers flips with each tile, not with each round",
        "predict": "K has two buffers, and each has its own mbarrier. The parity flips with each "
                   "tile, as if there were one. At which tile does it go wrong?",
        "happens": "At tile 1. While the tile is on its way its mbarrier is in phase 0, and a wait "
                   "for parity 1 passes at once. Once it has landed phase 1 runs, and the wait is "
                   "for its end, which never comes: on an H200 the kernel hangs.",
        "why": "A parity is the last bit of a phase's number, and each mbarrier counts its own "
               "phases: one for every second tile.",
        "caught": "The emulator, under every order of the threads: wait_wrong_phase. One tile shows "
                  "nothing.",
        "demos": [
            {"chapters": ("12",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "wait_wrong_phase", "at": "mbarrier_wait(K_full", "other": ""},
             "fine": [{"shape": [1, 1, 64, 128, 64]}]},
        ],
    },
    "no-init-fence": {
        "line": "no fence between the making of the mbarriers and the first copy",
        "predict": "A thread makes an mbarrier, and tells the copy engine to count there. It is the "
                   "same thread. Is program order not enough?",
        "happens": "missing_proxy_fence. On an H200 nothing was ever seen to go wrong.",
        "why": "The engine reaches shared memory by another way than threads do. What a thread has "
               "stored, it sees for certain only behind a fence.",
        "caught": "The emulator alone: that a card is kind today says nothing about tomorrow's.",
        "demos": [
            {"chapters": ("12",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"hazard": "missing_proxy_fence", "at": "tma_load_4d", "other": ""}},
        ],
    },
    "flat-map": {
        "line": "a tensor map in which all heads are one long matrix",
        "predict": "To the tensor map all heads are one long matrix, and a head begins at row "
                   "head * len. What happens to the last tile of a head?",
        "happens": "Nothing that a comparison of finite numbers finds. The tile ends with the next "
                   "head's rows, their scores are masked, and they weigh 0.",
        "why": "The engine writes zeros where a dimension ends, and the heads are no dimension any "
               "more. 0 times a value is 0, unless the value is NaN or Inf.",
        "caught": "NaN in the second head's V, and a look at the first head: test_attention.cpp of "
                  "chapter 12.",
        "demos": [
            {"chapters": ("12",), "shape": [1, 2, 64, 150, 64], "symptom": {"silent": True}},
        ],
    },
    "no-wgmma-wait": {
        "line": "S is read while the tensor cores may still write it",
        "predict": "wgmma only starts a product. Nobody waits for it, and the softmax reads S. What "
                   "does the emulator say, and what does a GPU do?",
        "happens": "registers_in_flight, and every output is NaN: the emulator keeps the registers "
                   "of a running wgmma poisoned. On an H200 the result was right.",
        "why": "The compiler sees registers that wgmma will write and somebody reads. ptxas then "
               "waits behind every wgmma and says so, in a remark (C7514): right, and slow.",
        "caught": "The emulator. On a GPU by reading what ptxas prints; this project's build fails "
                  "on it in every kernel without breaks.",
        "demos": [
            {"chapters": ("13",), "shape": [1, 1, 64, 256, 64],
             "symptom": {"nan": 64, "hazard": "registers_in_flight", "at": "wgmma<bf16>(S_rmem", "other": ""}},
        ],
    },
    "k-descriptor-for-v": {
        "line": "V's panels are said to be 16 bytes apart, as in a descriptor of K",
        "predict": "In a descriptor of K the leading distance does nothing, and 16 bytes stand "
                   "there. V's descriptor has them too. Which columns of O are wrong at D = 128, "
                   "and what stands in them?",
        "happens": "Columns 0 to 63 are right, 64 to 119 are columns 8 to 63 once more.",
        "why": "V's sum runs down its columns. There the leading distance leads to the next 64 "
               "columns; 16 bytes are 8 columns.",
        "caught": "Any comparison at D = 128. At D = 64 there is one panel, and no way to the next.",
        "demos": [
            {"chapters": ("13",), "shape": [1, 1, 64, 256, 128], "symptom": {"wrong": 0.3},
             "fine": [{"shape": [1, 1, 64, 256, 64]}]},
        ],
    },
    "empty-count": {
        "line": "`empty` expects one arrival too few",
        "predict": "Three consumers read a tile, and its `empty` counts to two. Who is harmed, and "
                   "when does it show?",
        "happens": "The third arrival counts for the next phase. `empty` runs ahead, the producer "
                   "with it, and the slowest consumer waits for a phase that is over. On an H200 "
                   "right at a short length, and a hang at a longer one.",
        "why": "The count of an mbarrier is how many arrive, no fewer and no more. What is left "
               "over is not forgotten.",
        "caught": "The emulator: wait_wrong_phase. As long as there are no more tiles than buffers "
                  "nothing is filled again, and nothing shows.",
        "demos": [
            {"chapters": ("14",), "shape": [1, 1, 192, 450, 64],
             "symptom": {"hazard": "wait_wrong_phase", "at": "mbarrier_wait(full", "other": ""},
             "fine": [{"shape": [1, 1, 192, 200, 64]}]},
        ],
    },
    "no-empty-wait": {
        "line": "the producer fills K's buffers without asking who still reads",
        "predict": "The producer waits for V's buffers only. What of K?",
        "happens": "overwrite_while_read: the next K lands on the one that a consumer multiplies "
                   "by. On an H200: unspecified launch failure.",
        "why": "`full` says that a tile has come; that the one before has gone only `empty` says.",
        "caught": "The emulator, under every order of the threads. Two tiles show nothing: there "
                  "are two buffers.",
        "demos": [
            {"chapters": ("14",), "shape": [1, 1, 192, 450, 64],
             "symptom": {"hazard": "overwrite_while_read", "at": "tma_load_4d", "other": "wgmma<bf16>(S_rmem"},
             "fine": [{"shape": [1, 1, 192, 200, 64]}]},
        ],
    },
    "full-for-empty": {
        "line": "the consumers wait at K's `empty`, not at its `full`",
        "predict": "The consumers wait at `empty` until K is there. What happens first?",
        "happens": "Nothing, for ever: a deadlock. `empty` waits for three arrivals of consumers, "
                   "and the consumers wait for `empty`.",
        "why": "Each of the two mbarriers is one side's question and the other side's answer.",
        "caught": "Any run: on a GPU it hangs. The emulator says who waits where, and for how many "
                  "arrivals.",
        "demos": [
            {"chapters": ("14",), "shape": [1, 1, 192, 450, 64],
             "symptom": {"nan": 64, "hazard": "deadlock", "at": "mbarrier_wait", "other": ""}},
        ],
    },
    "keep-registers": {
        "line": "the producer does not give its registers away",
        "predict": "The consumers ask for 160 registers, and the producer keeps its 128. Wrong "
                   "numbers, slow, or a hang?",
        "happens": "A deadlock: setmaxnreg waits until there are enough, and there never are.",
        "why": "65536 registers, 512 threads: 128 for each, and none left over.",
        "caught": "Any run: on a GPU it hangs. The emulator says how many registers are free: 0.",
        "demos": [
            {"chapters": ("14",), "shape": [1, 1, 192, 450, 64],
             "symptom": {"nan": 64, "hazard": "deadlock", "at": "mbarrier_wait", "other": ""}},
        ],
    },
    "early-pack": {
        "line": "P is packed while the product of the last one may read it",
        "predict": "The next weights are packed as soon as they are there. O += P V of the tile "
                   "before is in flight. Which weights does it multiply?",
        "happens": "registers_in_flight. Those of either tile: the first instructions may have "
                   "read P before it was overwritten, the others after. Finite and wrong.",
        "why": "wgmma reads operand A from the registers until the wait that covers it, not when "
               "it is issued.",
        "caught": "The emulator, and a comparison if the product is late. With one tile nothing "
                  "is in flight.",
        "demos": [
            {"chapters": ("15",), "shape": [1, 1, 192, 450, 64],
             "symptom": {"wrong": 0.3, "hazard": "registers_in_flight", "at": "Major::mn>(O_rmem", "other": ""},
             "fine": [{"shape": [1, 1, 192, 100, 64]}]},
        ],
    },
    "early-rescale": {
        "line": "O is rescaled while a product is added to it",
        "predict": "O moves to the new maximum before the product of the tile before is waited "
                   "for. Which data shows it?",
        "happens": "Where no maximum grows by more than 2^8, nothing: O is not touched. Where one "
                   "does, registers_in_flight and NaN: the emulator keeps the registers of a "
                   "running wgmma poisoned.",
        "why": "The accumulators belong to the tensor cores until the wait. What a thread writes "
               "into them meanwhile, and what it reads, is anybody's guess.",
        "caught": "Sharp scores: --scale 4 and a row maximum that grows late. Normal inputs "
                  "at scale 1 / sqrt(D) hardly come this way.",
        "demos": [
            {"chapters": ("15",), "shape": [1, 1, 192, 450, 64], "scale": 4,
             "symptom": {"nan": 64, "hazard": "registers_in_flight", "at": "Major::mn>(O_rmem", "other": ""},
             "fine": [{"scale": 0.125}, {"shape": [1, 1, 192, 100, 64]}]},
        ],
    },
    "wait-for-neither": {
        "line": "S is read while both products may be in flight",
        "predict": "S of the next tile and O of this one have been issued. Nobody waits, and the "
                   "softmax reads S. Does the wait for O, further down, help?",
        "happens": "registers_in_flight, and every output is NaN. The wait comes behind the "
                   "exponentials.",
        "why": "wgmma_wait<1> is there for S alone: all but the youngest group are complete, and "
               "S is the elder. The order of issue makes it so.",
        "caught": "The emulator. With one tile there is no loop.",
        "demos": [
            {"chapters": ("15",), "shape": [1, 1, 192, 450, 64],
             "symptom": {"nan": 64, "hazard": "registers_in_flight", "at": "wgmma<bf16>(S_rmem", "other": ""},
             "fine": [{"shape": [1, 1, 192, 100, 64]}]},
        ],
    },
    "no-first-turn": {
        "line": "with --ping-pong 1, nobody gives the first turn",
        "predict": "Each consumer waits for its turn and then gives the next one theirs. Who is "
                   "first?",
        "happens": "Nobody: a deadlock, before the first product. Without --ping-pong nothing.",
        "why": "A named barrier has no phase that counts as complete from the start, as a fresh "
               "mbarrier has. The first turn is an arrival like the others, and somebody has to "
               "make it.",
        "caught": "Any run with turns: on a GPU it hangs. The emulator names the barrier and how "
                  "many arrivals it lacks.",
        "demos": [
            {"chapters": ("15",), "shape": [1, 1, 192, 450, 64], "options": ["--ping-pong", "1"],
             "symptom": {"nan": 64, "hazard": "deadlock", "at": "mbarrier_wait", "other": ""},
             "fine": [{"options": []}]},
        ],
    },
    "no-sum-check": {
        "line": "nobody looks whether a sum of weights is too large",
        "predict": "The maximum of the first tile serves for all. Where scores are 60 times as "
                   "large, one may lie 100 above it, and e^100 leaves fp32. What is the result?",
        "happens": "Right, and slow: O is not finite in rows that overflow, and the second try does "
                   "them again. Here it is switched off on both sides: Inf and NaN, in those "
                   "rows only.",
        "why": "The maximum at hand is a guess, and the sum of the weights is what checks it. O "
               "says it, too, but only at the end: then all keys have to be read again.",
        "caught": "A counter: global_load_sectors, of which the intact kernel has none. Ordinary "
                  "inputs do not notice.",
        "demos": [
            {"chapters": ("16",), "shape": [1, 1, 128, 1024, 128], "scale": 60,
             "options": ["--break", "no-second-try"], "symptom": {"nan": 64},
             "fine": [{"options": []}, {"scale": 1}]},
            {"chapters": ("17f",), "ramp": True, "shape": [1, 1, 64, 512, 64], "scale": 0.08,
             "symptom": {"wrong": 0.03}},
        ],
    },
    "no-second-try": {
        "line": "rows of O that overflowed are written as they are",
        "predict": "Sums of weights stay below 2^50. Scores rise by 0.25 from key to key, and V "
                   "holds numbers up to 1e30, which is 2^100. Which rows overflow, those whose "
                   "scores rise fast or slowly?",
        "happens": "Those whose scores rise fast: Inf. Their weights go up to 2^46, and no sum is too "
                   "large. By the exact maximum they would end at 2^8, and O would be finite.",
        "why": "A weight passes if fp32 holds it. Its product with V need not fit. Nobody looks "
               "through V for its largest element: what comes out is looked at instead.",
        "caught": "A large V and rising scores, together. With V up to 2^60 there is nothing to "
                  "find.",
        "demos": [
            {"chapters": ("16",), "ramp": True, "shape": [1, 1, 64, 256, 64], "scale": 0.25,
             "values": 1e30, "symptom": {"nan": 64},
             "fine": [{"values": 1}, {"scale": 0.05}]},
        ],
    },
    "early-release": {
        "line": "K's buffer is given back before the sums are known",
        "predict": "S has been computed, so K is not needed any more. Who reads it after all?",
        "happens": "overwrite_while_read where a tile is done again: the producer fills the buffer "
                   "while a warp computes its scores from it a second time. Where none is, nothing.",
        "why": "Until a tile's sums are known to be good, its scores may be needed again.",
        "caught": "The emulator, with scores whose maximum grows late. On an H200 the result was "
                  "wrong with such scores, and right with ordinary ones.",
        "demos": [
            {"chapters": ("16",), "shape": [1, 1, 128, 1024, 128], "scale": 60,
             "symptom": {"hazard": "overwrite_while_read", "at": "tma_load_5d", "other": "ldmatrix_x4(K_rmem"},
             "fine": [{"scale": 1}]},
        ],
    },
    "unmasked-diagonal": {
        "line": "tiles at the edge are not masked",
        "predict": "Tiles that nobody sees are skipped, tiles that all see need no mask. What are "
                   "the others, under a causal mask, and without one?",
        "happens": "Finite and wrong: the future weighs something, and so do the zeros behind the "
                   "last key. Whole tiles without a mask are right.",
        "why": "Skipping tiles is a mask with a resolution of a tile. The rest is at the edges.",
        "caught": "Any causal input; without a mask, a length that is no multiple of the tile.",
        "demos": [
            {"chapters": ("16",), "shape": [1, 1, 100, 130, 64], "causal": True,
             "symptom": {"wrong": 0.1}, "fine": [{"shape": [1, 1, 64, 256, 64], "causal": False}]},
        ],
    },
    "no-smoothing": {
        "line": "K is rounded to 8 bits with its mean",
        "predict": "K's channels have means up to 20, and differ from key to key by 1. A scale "
                   "that reaches 20 has how many steps for a difference of 1? And what happens "
                   "with means of 0?",
        "happens": "Finite, and wrong by several times what 8 bits have to cost. With ordinary "
                   "K hardly anything: O is within the bound, and only LSE is not.",
        "why": "A mean that all keys have adds the same to all scores of a row. Softmax does not "
               "see it, the 8 bits have to reach it.",
        "caught": "K as models have it, with means in its channels; and a bound on what rounding "
                  "may cost, made from the steps that an intact kernel takes.",
        "demos": [
            {"chapters": ("17",), "shape": [1, 1, 128, 512, 128],
             "options": ["--channel-mean", "8"], "symptom": {"wrong": 0.03}},
            {"chapters": ("17f",), "shape": [1, 1, 128, 512, 128],
             "options": ["--channel-mean", "8"], "symptom": {"wrong": 0.1}},
        ],
    },
    "one-scale": {
        "line": "a whole head has one scale",
        "predict": "One number in 1000 is ten times as large as it was. With a scale for each "
                   "thread's group, how many numbers lose precision to it? With one for a head?",
        "happens": "Finite, and twice as wrong as with small groups. Without outliers a little "
                   "worse than intact.",
        "why": "The scale of a group has to reach its largest number. All others of the group "
               "are rounded to that scale's steps.",
        "caught": "Outliers in Q or K. Normal numbers have none: their largest is four to five "
                  "times their deviation, in any group.",
        "demos": [
            {"chapters": ("17",), "shape": [1, 1, 128, 512, 128], "options": ["--outliers", "10"],
             "symptom": {"wrong": 0.1}, "fine": [{"options": ["--outliers", "10", "--scales", "1"]}]},
        ],
    },
    "lse-uncorrected": {
        "line": "the log-sum-exp lacks what K's mean adds to a row",
        "predict": "K has lost its mean, and O does not mind. What has every score of a row lost, "
                   "and what the log of the sum of their exponentials?",
        "happens": "O is right. Each row's LSE is off by scale times q . mean.",
        "why": "e^(s - c) = e^s / e^c: the sum is e^c times too small, for each row its own c.",
        "caught": "LSE itself, against a reference; or two parts of K, smoothed by two means and "
                  "merged. O alone does not show it.",
        "demos": [
            {"chapters": ("17",), "shape": [1, 1, 128, 512, 128], "symptom": {"lse": 1}},
            {"chapters": ("17f",), "shape": [1, 1, 128, 512, 128], "symptom": {"lse": 1}},
        ],
    },
    "late-scale": {
        "line": "a tile's scores are multiplied by the scale of the tile before",
        "predict": "All tiles of K have scales of the same size, as normal numbers have. How wrong "
                   "is O if a tile gets its neighbour's? And if there is one tile?",
        "happens": "Finite and wrong, by a tenth and more: scores are too large or too small by "
                   "some percent, and e^s makes more of it. With one tile, or one scale for a "
                   "head, nothing.",
        "why": "An integer means nothing without its scale, and the scale changes with the tile.",
        "caught": "More than one tile, and a scale for each.",
        "demos": [
            {"chapters": ("17",), "shape": [1, 1, 128, 512, 128], "symptom": {"wrong": 0.1},
             "fine": [{"shape": [1, 1, 128, 40, 128]}, {"options": ["--scales", "1"]}]},
        ],
    },
    "p-unscaled": {
        "line": "the largest weight is 1 in e4m3, not 32",
        "predict": "One key scores 6 with every query, the others around 0, and there are 4096 of "
                   "them: weights around e^-6, a four-hundredth. What does e4m3, whose smallest "
                   "number is 2^-9, make of those? And of ordinary inputs?",
        "happens": "Finite and wrong: the small weights become 0, or one, two, three times 2^-9. "
                   "The key with the large weight has V = 0, so the small ones are the answer. "
                   "Ordinary inputs do not show it.",
        "why": "A float has a smallest number. All weights may be multiplied by what one likes, as "
               "l is: with 32 there are five powers of two more below.",
        "caught": "One key that takes most of the weight, as the first one does in many models. An "
                  "average over ordinary rows hides it.",
        "demos": [
            {"chapters": ("17f",), "shape": [1, 1, 64, 4096, 64], "options": ["--sink", "6"],
             "symptom": {"wrong": 0.018}, "fine": [{"options": []}]},
        ],
    },
    "one-level": {
        "line": "O stays in the tensor core from the first tile to the last",
        "predict": "The tensor core keeps 13 bits below the largest term, and cuts the rest off. "
                   "With 4096 visible keys, how much of the last one's p v is left? With 128?",
        "happens": "Finite, and too small everywhere, by 6 % where V does not average out. Where it "
                   "does, as in normal numbers without their mean, nothing.",
        "why": "Each term is cut toward zero, by more bits the longer the sum is. Errors that all "
               "lean the same way do not average out.",
        "caught": "Long rows, and V with a mean of its own where the query looks. A check by root "
                  "mean square: no single element is far off at first.",
        "demos": [
            {"chapters": ("17f",), "shape": [1, 1, 16, 8192, 64],
             "options": ["--v-drift", "4", "--window", "4095,0"], "symptom": {"wrong": 0.05},
             "fine": [{"options": []}]},
        ],
    },
    "keys-in-order": {
        "line": "V's keys stand in their order, P's do not",
        "predict": "Lanes pack the weights that they have; so P's columns come in another order "
                   "than the keys. V's rows do not. Is O wrong by much? And if all keys have the "
                   "same value?",
        "happens": "Finite and wrong: each weight is multiplied with the value of another key of "
                   "the same sixteen.",
        "why": "A sum has no order, as long as both factors have the same one.",
        "caught": "Any random input. A V that is the same for all keys does not notice.",
        "demos": [
            {"chapters": ("17f",), "shape": [1, 1, 128, 512, 128], "symptom": {"wrong": 0.1}},
        ],
    },
    "no-bound": {
        "line": "nobody asks how far scores may be above the maximum at hand",
        "predict": "Weights that are too large for e4m3 are made smaller afterwards, in fp32. How far "
                   "may a score be above the maximum at hand before there is nothing left to make "
                   "smaller?",
        "happens": "NaN, in the rows where an outlier of Q meets one of K in a later tile: 2^128 is "
                   "Inf, and Inf times 0 NaN. The other rows are right.",
        "why": "A repair after the fact needs the fact. |q| |k| says beforehand whether it may be "
               "lost, and costs a number for each tile.",
        "caught": "Outliers in Q and in K, in a tile that is not the first.",
        "demos": [
            {"chapters": ("17f",), "shape": [1, 1, 1024, 384, 64], "options": ["--outliers", "20"],
             "symptom": {"nan": 64}, "fine": [{"options": ["--outliers", "2"]}]},
        ],
    },
    "weights-swapped-early": {
        "line": "all cells take the next tile's weights at once",
        "predict": "The next weights wait in a second register of each cell. All cells swap when "
                   "the next tile's first row enters. Which results are wrong, the first or the "
                   "last?",
        "happens": "The last rows of the tile before are still on their way down, and finish "
                   "with the new weights. Its first rows are right.",
        "why": "The array is never in one tile as a whole: the old one leaves along a diagonal, "
               "and the new one follows along the same. The swap has to walk with it.",
        "caught": "More than one tile, and a look at the last rows. One tile has nothing to "
                  "swap to; without --double-buffer the array is empty when it swaps.",
        "demos": [
            {"chapters": ("18",),
             "run": "matmul --m 8 --k 6 --n 3 --rows 3 --cols 3 --double-buffer",
             "symptom": {"wrong": 1},
             "fine": [{"run": "matmul --m 8 --k 3 --n 3 --rows 3 --cols 3 --double-buffer"},
                      {"run": "matmul --m 8 --k 6 --n 3 --rows 3 --cols 3"}]},
        ],
    },
    "drain-forgotten": {
        "line": "results are read when the last operand has entered the array",
        "predict": "The last operand has entered; the results are read. M + K - 1 cycles instead "
                   "of M + K + N - 2. How many of the M x N are missing?",
        "happens": "Of column n the last n, a triangle: they never left the array, and what was "
                   "never written is NaN. An array that keeps the results has them, without "
                   "their last terms: finite, and wrong.",
        "why": "Entering is not leaving. The last activation still has N - 1 columns to go.",
        "caught": "A product with N > 1, and an output that is NaN before the run, not 0.",
        "demos": [
            {"chapters": ("18",), "run": "matmul --m 4 --k 3 --n 3", "symptom": {"nan": 3},
             "fine": [{"run": "matmul --m 4 --k 3 --n 1"}]},
            {"chapters": ("18",), "run": "matmul --m 4 --k 3 --n 3 --dataflow output",
             "symptom": {"wrong": 1},
             "fine": [{"run": "matmul --m 4 --k 3 --n 1 --dataflow output"}]},
        ],
    },
}

"""Finds sentences that readers of this course had to read twice (docs/CONTRIBUTING.md, How we write): in
Markdown, in comments, and in messages of four words or more.

Only patterns that are nearly always wrong here. A line that is right all the same, such as a quotation, ends in
`prose: ok`, in a comment.
"""

import io
import re
import tokenize
from pathlib import Path

THING = "tile|warp|thread|lane|block|head|row|key|token|step|column|query|launch|cycle|clock|stage|page|split|rank"
PATTERNS = [  # (expression, comments only, what to write)
    (r"\b(?:[Nn]obody|[Ee]verybody|[Aa]nybody|[Ss]omebody|[Ww]hoever)\b", False,
     "name the actor: no thread, every warp, the reader"),
    (r"(?:^|[.!?:;] )[Ww]ho (?!is\b|are\b)[a-z]+s\b(?![^.!;]*\?)", False, "the thread that …, the warp that …"),
    (r"(?:^|[.!?] )What (?!happens\b|if\b|is\b|are\b|about\b|does\b|do\b)(?:[a-z]+ ){1,5}(?:is|are|was|stands)\b[^?.]*\.",
     True, "a noun and a verb: The …, Returns the …"),
    (r"\b[Ww]hat of (?:it|them)\b", False, "name the thing: which of the three changes"),
    (r"\bso many\b(?! (?:that|different|of)\b)", False, "give the count a name: N, `rows`"),
    (r"\b(?:stands?|stood) (?:in|at|on|before|after|behind|beside|there|where|between|next|first|last)\b"
     r"(?! (?:for|place of)\b)", False, "is in, is stored at, comes before"),
    (r"\b(?:lies?|lay|lain) (?:at|behind|beside|there|where|before|in (?:shared|global|memory|registers))\b", False,
     "is stored at, starts at, is in"),
    (r"\b(?:is|are|was|were) (?:also |still )?(?:chapter \d\d|FlashAttention(?:-\d)?|cuDNN)['’]s(?=[,.;:)]|$)", False,
     "a noun after the possessive: is the same as in chapter 15"),
    (r"\bin front of\b", False, "before"),
    (r"(?<![\d.])(?:\d+|one|two|three|four|eight) (?!of |to |in |and |with |is )[a-z]+ a (?:" + THING + r")(?=[.,;:)])"
     r"|\b(?:once|twice) a (?:" + THING + r")\b(?! of\b|['’]s)", False, "per: 16 rows per warp, once per tile"),
    (r"\b(?:done|computed|multiplied) again\b", False, "recomputed"),
    (r"\b(?:go|goes|went|gone) on(?=[.,;:]|$)", False, "continues, runs on"),
    (r"\bat hand\b", False, "current"),
    (r"^(?:Is|Does|Has|Are|Do|May|Can|Must|Was|Have|Did) [^.?]*\?", True, "True if …, Returns whether …"),
]
PATTERNS = [(re.compile(expression), comments, advice) for expression, comments, advice in PATTERNS]
WORDS = 4  # of a message
LEFT = re.compile(r"docs/measurements/(?:h100|h200|cpu)/|\.ci/test_prose")  # notes as they were taken; examples


def of_markdown(text):
    """(line, text, comment or not) of each line of prose."""
    fence, example = None, False
    for number, line in enumerate(text.splitlines(), 1):
        example = line.startswith("| not | but |") or example and line.startswith("|")  # of what not to write
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
        elif not fence and not example and not re.match(r" {4}|\t", line):
            line = re.sub(r"<!--.*?(?:-->|$)|(`+).+?\1|\]\([^)]*\)|</?\w[^>]*>", "", line)
            for cell in line.strip("| ").split(" | "):
                yield number, cell.strip(), False


def of_cpp(text):
    """The same of C++, CUDA and JavaScript. Consecutive comment lines are single lines here."""
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: found[0].replace("//", "  "), line).partition("//")
        if comment.strip() and not re.match(r"[/!<]*\s*(?:\[/?anchor|NOLINT|clang-format)", comment):
            yield number, re.sub(r"`[^`]*`", "CODE", comment.lstrip("/!< ").strip()), True
        if "#include" not in code:
            for found in re.findall(r'"((?:[^"\\]|\\.)*)"', code):
                if len(found.split()) >= WORDS:
                    yield number, found, False


def of_python(text):
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# "), True
        elif token.type == tokenize.STRING and len(token.string.split()) >= WORDS:
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, re.sub(r"`[^`]*`", "CODE", line.strip("\"' ")), False


READERS = {".md": of_markdown, ".cpp": of_cpp, ".hpp": of_cpp, ".cu": of_cpp, ".js": of_cpp, ".mjs": of_cpp,
           ".py": of_python}


def checked(name):
    """True if a tracked file is one that this reads."""
    suffix = Path(name).suffix
    return suffix in READERS and not LEFT.match(name)


def problems(name, text):
    """`line: found: advice` for each place of a file's text."""
    lines = text.splitlines()
    for number, sentence, comment in READERS[Path(name).suffix](text):
        if "prose: ok" in lines[number - 1]:
            continue
        for expression, comments_only, advice in PATTERNS:
            found = expression.search(sentence) if comment or not comments_only else None
            if found:
                yield f"{name}:{number}: \"{found[0].strip()}\": {advice}"

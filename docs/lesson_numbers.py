"""Which numbers of a lesson are measured, and where each of them comes from.

A measured number is one before a unit of measurement (TFLOP/s, %, times, ms, W, MHz,
clocks, registers, bytes of spill, …), or has a decimal point or an exponent. Each must have a
source. It has one if

- output that the same page prints (`<!-- run: … -->`) contains it with three digits or more, or
- a comment at the end of its paragraph or list, or above its table, names its source:

    <!-- source: FILE "KEY" -->        it is in a line of FILE that contains KEY
    <!-- source: $ COMMAND "KEY" -->   … of what a command prints; `page` for this page's own output
    <!-- number: 17 = 100 * (409.6 / 350.0 - 1); 8 = 1280 / 160 -->
                                       it is computed: whole numbers are counts, all others are in
                                       the sources of the paragraph or in the page's output
    <!-- cited: 989, 4.8: https://… --> it was measured by others
    <!-- about: 640: REASON -->        no more than an order of magnitude: the text says "about 640"

Without a KEY, the source must contain the number as the page writes it, with three digits or more.
Lines that a KEY selects may contain it with more digits, and `KEY; KEY` asks for both keys. Code,
links' targets, pictures, formulas, versions and numbers of exercises are not checked.
"""

import ast
import operator
import re
from decimal import Decimal
from typing import Callable, Dict, Iterator, List, NamedTuple, Tuple

NUMERAL = r"\d+(?:\.\d+)?(?:e[-+]?\d+|·10[⁻⁰¹²³⁴-⁹]+)?"
UNIT = re.compile(r"\s?(?:[MGT]?FLOP/s|[MGT]B/s|%|[mµn]s\b|s\b|W\b|[MG]Hz\b|times\b|clocks?\b"
                  r"|seconds\b|minutes\b"
                  r"|×(?=\s*(?:[a-z]{3}|[A-Z][a-z]|[.,;:)*]|$)))")  # not the × of 16 × 8
REGISTERS = re.compile(r"\s?registers?\b")  # as ptxas counts them, from 10 on: chapter 01 has three
SPILLED = re.compile(r"\s?bytes\b")  # measured if the paragraph is about spills or the stack
TOKEN = re.compile(rf"(?<![\w.,^]){NUMERAL}(?![\w]|\.\d)")
AND_UNIT = re.compile(rf"(?:,| to| or| and|,? against|–| ±)\s?{NUMERAL}")  # 4 to 5 %, 3.5 or 4 %
VERSION = (r"(?:\b(?:g\+\+|GCC|[Cc]lang|CMake|CUDA|nvcc|PyTorch|cuDNN|Python|Compute|Boost|driver|"
           r"Node|version|PTX ISA|[Ee]xercises?)\s+\d[\d.]*)|\b\d+(?:\.\d+){2,}|\b0\d\.\d\b")
THOUSANDS = r"\b\d{1,3}(?:,\d{3})+\b"  # counts, because measured numbers have no commas
NOT_PROSE = [r"(`+).+?\1", r"\*\*\d\d\.\d\*\*", r"!\[[^\]]*\]\([^)]*\)", r"\[\d\d\.\d [^\]]*\]\([^)]*\)",
             r"<!--.*?-->", r"</?[a-z][^>]*>", r"\$[^$\n]+\$", VERSION, THOUSANDS]
COMMENT = re.compile(r"<!--\s*(source|number|cited|about):\s*(.+?)\s*-->")
MARKED = re.compile(r"<!--\s*(source|number|cited|about)\b")
SPLITS = re.compile(r"(?m)^\s*<!--.*-->\n(?!\s*<!--|\||</|\s*- |\s*\d+\. )")
SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


class Paragraph(NamedTuple):
    line: int   # the number of its first line, from 1
    text: str  # lines without a blank line between them


class Unsourced(Exception):
    """An incorrect or unreadable comment, described in one sentence."""


def paragraphs(prose: List[Tuple[int, str]]) -> Iterator[Paragraph]:
    """Splits numbered lines into paragraphs. A gap in the numbers (a fenced block) also ends a
    paragraph."""
    lines: List[str] = []
    first = last = 0
    for number, line in [*prose, (-1, "")]:
        if lines and (not line.strip() or number != last + 1):
            yield Paragraph(first, "\n".join(lines))
            lines = []
        if line.strip():
            first = first if lines else number
            lines.append(line)
        last = number


def value(text: str) -> Decimal:
    mantissa, _, exponent = text.partition("·10")
    return Decimal(mantissa).scaleb(int(exponent.translate(SUPERSCRIPT) or 0))


def step(text: str) -> Decimal:
    """Returns one unit of the last decimal place of a number."""
    mantissa, _, exponent = text.replace("·10", "e").translate(SUPERSCRIPT).partition("e")
    return Decimal(1).scaleb(int(exponent or 0) - len(mantissa.partition(".")[2]))


def digits(text: str) -> int:
    return len(re.sub(r"\D", "", re.split("e|·", text)[0]).lstrip("0"))


def measured(text: str) -> List[str]:
    """Returns the measured numbers of a paragraph, as written."""
    for pattern in NOT_PROSE:
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)  # keeps the text of a link
    spills = re.search(r"\bspill|\bstack\b", text)
    found = []
    for token in TOKEN.finditer(text):
        rest = text[token.end():]
        while AND_UNIT.match(rest):  # the unit of "4 or 5 %" belongs to both
            rest = rest[AND_UNIT.match(rest).end():]
        if not token[0].isdigit() or UNIT.match(rest) or spills and SPILLED.match(rest) \
                or len(token[0]) > 1 and REGISTERS.match(rest):
            found.append(token[0])
    return found


def stands_in(number: str, text: str, keyed: bool) -> bool:
    """True if the text contains the number as written. Lines chosen by a key may have more
    digits."""
    numerals = re.findall(rf"(?<![\d.]){NUMERAL}(?!\d|\.\d)", text)
    if keyed:
        return any(abs(value(numeral) - value(number)) <= step(number) / 2
                   and step(numeral) <= step(number) for numeral in numerals)
    return digits(number) >= 3 and number in numerals


OPERATORS: Dict[type, Callable] = {ast.Add: operator.add, ast.Sub: operator.sub,
                                   ast.Mult: operator.mul, ast.Div: operator.truediv,
                                   ast.Pow: operator.pow}


def evaluate(expression: str, known: Callable[[str], bool]) -> Decimal:
    """Evaluates + - * / ** of numbers. Numbers with a decimal point must be known."""
    def walk(node: ast.expr) -> Decimal:
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left, right = walk(node.left), walk(node.right)
            if isinstance(node.op, ast.Mult) and not left * right:
                raise Unsourced(f"number: {expression}: a product of 0 would let any number in")
            return OPERATORS[type(node.op)](left, right)
        if isinstance(node, ast.Constant):
            text = ast.get_source_segment(expression, node) or ""
            if re.fullmatch(NUMERAL, text):
                if not text.isdigit() and not known(text):
                    raise Unsourced(f"number: {expression}: {text} is in none of the sources")
                return Decimal(text)
        raise Unsourced(f"number: {expression}: expected numbers and + - * / **")
    try:
        tree = ast.parse(expression, mode="eval").body
        if not isinstance(tree, ast.BinOp):
            raise Unsourced(f"number: {expression}: a number is no source of itself")
        return walk(tree)
    except (SyntaxError, ArithmeticError):
        raise Unsourced(f"number: {expression}: cannot be computed") from None


class Source:
    """A source of the numbers of a paragraph, which is a text, or the lines of it that contain a key."""

    def __init__(self, text: str, keyed: bool, body: str = "") -> None:
        self.text, self.keyed, self.body, self.used = text, keyed, body, not body

    def holds(self, number: str) -> bool:
        found = stands_in(number, self.text, self.keyed)
        self.used |= found
        return found


def source(body: str, printed: str, read: Callable[[str], str]) -> Source:
    """Returns the source of the comment `source: body`."""
    where, _, key = re.fullmatch(r'(.*?)(\s+"([^"]+)")?', body).groups()
    text = printed if where == "page" else read(where)
    if key:
        keys = [part.strip() for part in key.split(";")]
        text = "\n".join(line for line in text.split("\n") if all(part in line for part in keys))
        if not text:
            raise Unsourced(f"source: {body}: no line contains {key!r}")
    return Source(text, bool(key), body)


def computed(body: str, known: Callable[[str], bool]) -> Iterator[str]:
    """Returns the numbers of the comment `number: body`, after checking each expression."""
    for claim in body.split(";"):
        number, _, expression = (part.strip() for part in claim.partition("="))
        if not re.fullmatch(NUMERAL, number) or not expression:
            raise Unsourced(f"number: {claim.strip()}: expected N = EXPRESSION")
        result = evaluate(expression, known)
        if abs(result - value(number)) > step(number) / 2:
            raise Unsourced(f"number: {claim.strip()}: it is {result:.6g}")
        yield number


def told(kind: str, body: str, text: str) -> List[str]:
    """Returns the numbers of the comments `cited: body` and `about: body`, which are not
    compared."""
    listed, _, reason = body.partition(": ")
    numbers = re.split(r",\s*", listed)
    if not all(re.fullmatch(NUMERAL, number) for number in numbers) or not reason:
        raise Unsourced(f"{kind}: {body}: expected N, …: where it is from")
    if kind == "cited" and "https://" not in reason:
        raise Unsourced(f"cited: {body}: no address")
    if kind == "about" and len(reason.split()) < 3:
        raise Unsourced(f"about: {body}: expected the reason, in a few words")
    for number in numbers if kind == "about" else []:
        if not re.search(rf"\b[Aa]bout\s+{re.escape(number)}\b", text):
            raise Unsourced(f"about: {body}: the text does not say \"about {number}\"")
    return numbers


def problems(paragraph: Paragraph, printed: str, read: Callable[[str], str]) -> Iterator[str]:
    """Returns the errors in the numbers of a paragraph. printed: the output that the page shows.
    read: returns the text of a source other than `page` (raises Unsourced)."""
    text = re.sub(r"(`+).+?\1", " ", paragraph.text)  # an example of a comment is not a comment
    comments = COMMENT.findall(text)
    if len(MARKED.findall(text)) != len(comments):
        yield "malformed comment: expected <!-- source|number|cited|about: … --> on one line"
    if SPLITS.search(paragraph.text):
        yield "a comment splits this paragraph in two on the rendered page: put it at the end"
    sources, vouched = [Source(printed, False)], set()

    def known(number: str) -> bool:
        # all of them, because each records its use
        return any([one.holds(number) for one in sources])
    for kind, body in sorted(comments, key=lambda comment: comment[0] != "source"):
        try:
            if kind == "source":
                sources.append(source(body, printed, read))
            elif kind == "number":
                vouched.update(computed(body, known))
            else:
                vouched.update(told(kind, body, paragraph.text))
        except Unsourced as problem:
            yield str(problem)
    for number in dict.fromkeys(measured(paragraph.text)):
        if not known(number) and number not in vouched:
            yield f"{number} has no source (docs/lesson_numbers.py says what is one)"
    shown = re.sub(r"<!--.*?-->", " ", paragraph.text)
    for number in sorted(vouched):
        if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d|\.\d)", shown):
            yield f"a comment gives the source of {number}, which the text does not hold"
    for one in sources:
        if not one.used:
            yield f"source: {one.body}: no number of this paragraph is there"

"""Removes this repository's break-it switches from C++, as lessons quote it.

    without_breaks("if (!breaks.has(fa::MISSING_WAIT)) cp_async_wait<0>();")  ->  "cp_async_wait<0>();"

`breaks.has(X)` and `breaks & X` count as false, and `std::is_empty_v<Breaks>` as true. Everything that depends on them is
simplified:
operands of && and
|, branches of ?: and if, constants that are always true or false, and arguments and parameters named `breaks`.
Comments stay with their statement. The rest of the text is returned unchanged.
"""

import re

CALL = re.compile(r"\bbreaks_?(?:\.has\([\w:]+\)| & \w+)")
EMPTY = re.compile(r"\bstd::is_empty_v<Breaks>")
OFF, ON = "\x00", "\x01"  # a condition that is false, or true: no source has these characters
ARGUMENTS = (  # pattern, replacement; in this order
    (r"[ \t]*template <class Breaks>\n", ""),
    (r",\s*class Breaks\b", ""),
    (r",\s*(?:Breaks|(?:Breaks|auto|(?:std::)?uint32_t) breaks)(?=\s*[,)>])", ""),
    (r"\(Breaks breaks\)", "()"),
    (r",\s*breaks\b(?=\s*[,)\]}])", ""),
    (r"\(breaks\)", "()"),
)
PAIRS = {"(": ")", "[": "]", "{": "}"}


def masked(text):
    """Returns the text with comments and strings blanked out, character by character."""
    return re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'",
                  lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def closing(code, at):
    """Returns the position where the bracket at `at` is closed."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    raise ValueError("a bracket is never closed")


def end_of_operand(code, at, stops):
    """Returns the first position from `at` on, outside of brackets, where one of these tokens or
    the closing bracket ends the operand."""
    while at < len(code):
        if code[at] in PAIRS:
            at = closing(code, at)
        elif code[at] in ")]};," or code.startswith(stops, at):
            return at
        at += 1
    return at


def start_of_operand(code, at, stops):
    """Returns the first character of the operand that ends before `at`."""
    depth = 0
    for i in range(at - 1, -1, -1):
        depth += (code[i] in ")]}") - (code[i] in "([{")
        before = code[:i + 1]
        if depth < 0 or depth == 0 and (
                code[i] in ";,{}?" or before.endswith(stops) or re.search(r"\breturn$", before)
                or code[i] == ":" and not re.search(r"::?$", code[i - 1:i + 2])
                or code[i] == "=" and not re.search(r"[=!<>]=|==", code[max(i - 1, 0):i + 2])):
            start = i + 1
            break
    else:
        start = 0
    return start + len(code[start:at]) - len(code[start:at].lstrip())


def end_of_statement(code, at):
    """Returns the position after the statement that begins at `at`, which is after its block or its
    semicolon."""
    at += len(code[at:]) - len(code[at:].lstrip())
    if code[at] == "{":
        return closing(code, at) + 1
    for keyword in ("if constexpr ", "if ", "for ", "while "):
        if code.startswith(keyword, at):
            end = end_of_statement(code, closing(code, code.index("(", at)) + 1)
            other = re.compile(r"\s*else\b").match(code, end)
            return end_of_statement(code, other.end()) if other and keyword[0] == "i" else end
    return end_of_operand(code.replace(",", " "), at, ";") + 1


def cut(text, start, end):
    """Returns the text without [start, end). An otherwise empty line is removed together with its
    comment."""
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip():
        start = line
        rest = re.compile(r"[ \t]*(?://[^\n]*)?(?:\n|$)").match(text, end)
        end = rest.end() if rest else end
    return text[:start] + text[end:]


def take(text, start, end, kept_start, kept_end):
    """Returns the text in which [kept_start, kept_end) replaces [start, end)."""
    return text[:start] + text[kept_start:kept_end].strip() + text[end:]


def unwrap(text, start, end):
    """Returns the statement in [start, end). A block loses its braces and is indented less."""
    statement = text[start:end].strip()
    if not statement.startswith("{"):
        return statement
    inner = statement[1:-1].strip("\n").rstrip()
    return re.sub(r"(?m)^  ", "", inner).lstrip()


def simplify_if(text, code, at):
    """Removes the if whose condition is the constant at `at`."""
    head = re.compile(r"if(?: constexpr)? \($").search(code[:at])
    if not head or code[at + 1] != ")":
        return None
    start, then = head.start(), at + 2
    then_end = end_of_statement(code, then)
    other = re.compile(r"\s*else\b").match(code, then_end)
    end = end_of_statement(code, other.end()) if other else then_end
    if code[at] == ON:
        return text[:start] + unwrap(text, then, then_end) + text[end:]
    if other:
        return text[:start] + unwrap(text, other.end(), end) + text[end:]
    if re.search(r"\belse\s*$", code[:start]):
        return None
    return cut(text, start, end)


def simplify_constant(text, code, at):
    """Replaces NAME by the value of `const bool NAME = constant;` until the end of the block."""
    definition = re.compile(r"const bool (\w+) =\s*$").search(code[:at])
    if not definition or code[at + 1] != ";":
        return None
    name, depth, end = definition.group(1), 0, at
    while end < len(code) and depth >= 0:
        depth += (code[end] == "{") - (code[end] == "}")
        end += 1
    scope = "".join(text[at + 2:end])
    for use in reversed(list(re.finditer(rf"\b{name}\b", code[at + 2:end]))):
        scope = scope[:use.start()] + code[at] + scope[use.end():]
    return cut(text[:at + 2] + scope + text[end:], definition.start(), at + 2)


def simplify(text, at):
    """Does one step of simplification of the constant at `at`. Returns None if there is none."""
    code, value = masked(text), text[at]
    after = at + 1
    if code[at - 1] == "!":
        return text[:at - 1] + (ON if value == OFF else OFF) + text[after:]
    for operator, neutral, stops in (("&&", ON, ("||", "&&", "?")), ("||", OFF, ("||", "?"))):
        right = re.compile(rf"\s*{re.escape(operator)}\s*").match(code, after)
        left = re.compile(rf"\s*{re.escape(operator)}\s*$").search(code[:at])
        if value == neutral and right:
            return text[:at] + text[right.end():]
        if value == neutral and left:
            return text[:left.start()] + text[after:]
        if value != neutral and right:
            return text[:after] + text[end_of_operand(code, right.end(), stops):]
        if value != neutral and left:
            return text[:start_of_operand(code, left.start(), stops)] + text[at:]
    question = re.compile(r"\s*\?").match(code, after)
    if question:
        colon = end_of_operand(code.replace("::", "  "), question.end(), (":",))
        end = end_of_operand(code, colon + 1, ())
        first, last = (question.end(), colon) if value == ON else (colon + 1, end)
        return take(text, at, end, first, last)
    return simplify_if(text, code, at) or simplify_constant(text, code, at)


def tidy(before, after):
    """Cleans up `after` where a change left a sum with 0, an opening bracket alone on a line, wide
    gaps, or a long line."""
    after = re.sub(r" [-+] \(0\)", "", after)
    old = set(before.split("\n"))
    lines = []
    for line in after.split("\n"):
        if line not in old:
            line = re.sub(r"(?<=\S) {3,}//", "  //", line).rstrip()
            if lines and lines[-1].endswith(" =") and len(lines[-1]) + len(line.strip()) < 100:
                line = lines.pop() + " " + line.strip()
            code, mark, comment = line.rpartition("  // ")
            if mark and len(line) > 100:  # the comment comes first
                lines.append(code[:len(code) - len(code.lstrip())] + "// " + comment)
                line = code
        lines.append(line)
    return "\n".join(lines)


def without_breaks(text):
    """Returns C++ source text without `breaks`. Raises ValueError if it cannot simplify the
    text."""
    if "breaks" not in text:
        return text
    result = EMPTY.sub(ON, CALL.sub(OFF, text))
    while True:
        for found in re.finditer(f"[{OFF}{ON}]", masked(result)):
            simpler = simplify(result, found.start())
            if simpler is not None:
                result = simpler
                break
        else:
            break
    result = result.replace(OFF, "false").replace(ON, "true")
    for pattern, replacement in ARGUMENTS:
        for found in reversed(list(re.finditer(pattern, masked(result)))):
            result = result[:found.start()] + replacement + result[found.end():]
    return tidy(text, result)

"""The pages of a lesson: `chapters/NN_topic/README.md`, then `2-short-name.md`, `3-….md`, ….

A lesson that is longer than MAX_WORDS words has several pages with one idea each. The first page links
the others in order. The exercises of a chapter with several pages are listed on the page that teaches
them, under `## Exercises`, and their READMEs link back to that page.
"""

import re
from pathlib import Path
from typing import Dict, Iterator, List, Optional

MAX_WORDS = 3200  # per page

PAGE_NAME = re.compile(r"([2-9])-[a-z0-9]+(?:-[a-z0-9]+)*\.md")
LINKED_PAGE = re.compile(r"\]\(((?:README|\d-[^)#/]+)\.md)")
LINKED_EXERCISE = re.compile(r"\]\([./]*/exercises/\d\d_\w+/(ex\d+_\w+)/")


def chapter_pages(chapter: Path) -> List[Path]:
    """Returns the pages of a chapter's lesson in reading order. `chapter` is its directory."""
    return [chapter / "README.md", *sorted(chapter.glob("[0-9]-*.md"))]


def page_of_exercise(chapter: Path, exercise: str) -> Optional[Path]:
    """Returns the page whose list of exercises has the exercise (`ex1_safe_softmax`), or None."""
    return next((page for page in chapter_pages(chapter)
                 if page.exists() and exercise in listed_exercises(page.read_text(encoding="utf-8"))), None)


def listed_exercises(text: str) -> List[str]:
    """Returns the directories of the exercises that a page lists under `## Exercises`, in its
    order."""
    section = re.search(r"^## Exercises\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return LINKED_EXERCISE.findall(section[1]) if section else []


def words(text: str) -> int:
    """Returns the number of words that a page shows, in prose, code and output, without HTML
    comments."""
    return len(re.sub(r"<!--.*?-->", "", text, flags=re.S).split())


def problems(root: Path) -> Iterator[str]:
    """Returns the errors in the pages of all chapters below `root`, one sentence each."""
    for chapter in sorted((root / "chapters").glob("[0-9][0-9]_*")):
        if chapter.is_dir():
            yield from problems_of_chapter(root, chapter)


def problems_of_chapter(root: Path, chapter: Path) -> Iterator[str]:
    number, pages = chapter.name[:2], chapter_pages(chapter)
    others = [page.name for page in pages[1:]]
    for stray in sorted({page.name for page in chapter.glob("*.md")} - {"README.md"} - set(others)):
        yield f"{chapter / stray}: the name of a page is 2-short-name.md"
    if not pages[0].exists():
        yield f"{chapter}: has no README.md"
        return
    for place, name in enumerate(others, 2):
        match = PAGE_NAME.fullmatch(name)
        if not match or int(match[1]) != place:
            yield f"{chapter / name}: expected a page {place}, named {place}-short-name.md"
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    linked = list(dict.fromkeys(name for name in LINKED_PAGE.findall(texts["README.md"])
                                if name != "README.md"))
    if linked != others:
        yield (f"{pages[0]}: expected links to the pages of the chapter in order "
               f"({', '.join(others) or 'none'}), got {', '.join(linked) or 'none'}")
    for page in pages:
        if words(texts[page.name]) > MAX_WORDS:
            yield (f"{page}: has {words(texts[page.name])} words, {MAX_WORDS} are the most: move an idea "
                   "to another page")
    for page, following in zip(pages, others):
        if following not in LINKED_PAGE.findall(texts[page.name]):
            yield f"{page}: has no link to the next page, {following}"
    for page in pages[1:]:
        if not texts[page.name].startswith(f"# Chapter {number}, page {page.name[0]}: "):
            yield f"{page}: expected to begin with \"# Chapter {number}, page {page.name[0]}: \""
    if others:
        yield from problems_of_exercises(root, chapter, texts)


def problems_of_exercises(root: Path, chapter: Path, texts: Dict[str, str]) -> Iterator[str]:
    registry = root / "exercises" / "CMakeLists.txt"
    taken = re.findall(rf"^exercise\({chapter.name} (\S+?)[\s)]",
                       registry.read_text(encoding="utf-8") if registry.exists() else "", re.M)
    listed = [(exercise, page) for page, text in texts.items() for exercise in listed_exercises(text)]
    if [exercise for exercise, _ in listed] != taken:
        yield (f"{chapter}: expected the exercises in the lists of its pages in the order in which learn "
               f"takes them ({', '.join(taken)}), got {', '.join(exercise for exercise, _ in listed)}")
    for exercise, page in listed:
        readme = root / "exercises" / chapter.name / exercise / "README.md"
        back = f"](../../../chapters/{chapter.name}/{page}"
        if readme.exists() and back not in readme.read_text(encoding="utf-8"):
            yield f"{readme}: has no link to the page that lists the exercise, {page}"

"""Sentences of the pages, and the first words of docstrings and comments."""

import ast
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MODULES = sorted([*(ROOT / "locust_realism").rglob("*.py"), *(ROOT / "scenarios").rglob("*.py")])
LONGEST = 30
"""Words of the longest sentence; a span of code is one word, and so is a list of them."""
RELATIVE = re.compile(r"(What|Who|Whether|How|When|Where|Which)\b")
CODE_BLOCK = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$|(?<=\n\n)( {4}[^\n]*\n|\n(?= {4}))+", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])")
CODE = re.compile(r"(`+[^`]*`+(,?\s(and|or)\s|[,;/]?\s?)(?=`))*`+[^`]*`+")
NEW_BLOCK = re.compile(r" *([-*+] |\d+\. |\||#|<)")
END = re.compile(r"""(?<=[.!?])[)"*_]*\s+(?=[(\["*_`]*[A-Z`0-9])""")


def blocks(page: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a Markdown page, without code blocks, titles and links."""
    block: list[str] = []
    for line in [*CODE.sub("`code`", LINK.sub(r"\1", CODE_BLOCK.sub("\n", page))).splitlines(), ""]:
        if not line.strip() or NEW_BLOCK.match(line):
            yield " ".join(block)
            block = []
        if line.startswith("|"):
            yield from line.split("|")
        elif line.strip() and not line.startswith(("#", "<", ">>> ")):
            block.append(re.sub(r"^\s*([-*+] |\d+\. )", "", line).strip())


def sentences(page: str) -> list[str]:
    """Return the sentences of a Markdown page."""
    return [part.strip() for block in blocks(page) for part in END.split(block) if part.strip()]


def faults(page: str) -> list[str]:
    """Return the sentences of a page that are too long, or begin with a relative clause and are no question."""

    def faulty(sentence: str) -> bool:
        bare = sentence.replace("**", "").strip('"()')  # a title in italics keeps its star
        relative = RELATIVE.match(bare) is not None and not bare.endswith("?")
        return relative or len(re.findall(r"\S*\w\S*", sentence)) > LONGEST

    return [sentence for sentence in sentences(page) if faulty(sentence)]


def relative_beginnings(source: str) -> list[str]:
    """Return the first docstring lines, and the first lines of comments, that begin with a relative clause."""
    found = [
        node.value.value.strip().split("\n")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.lstrip().startswith("#")
            if not (alone and last == token.start[0] - 1):
                found.append(token.string.lstrip("#: "))
            last = token.start[0] if alone else -1
    return [line for line in found if RELATIVE.match(line) and not line.endswith("?")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_short_sentences_with_the_subject_first(page: pathlib.Path) -> None:
    """No sentence of a page is over 30 words, and none begins with a relative clause."""
    assert faults(page.read_text()) == []


def test_docstrings_and_comments_with_the_subject_first() -> None:
    """No docstring and no comment begins with a relative clause."""
    found = {str(path.relative_to(ROOT)): relative_beginnings(path.read_text()) for path in MODULES}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_faults_are_found() -> None:
    """Negative control: a long sentence, and relative clauses in a page, a cell, a docstring and a comment."""
    long = "One " + "word " * 30 + "more."
    page = f"# Who needs it\n\nShort. {long} Short.\n\n    What runs\n\n- **What** stays.\n\n```\nWho\n```\n"
    page += "| `key` | Whether it runs. |\n"
    assert faults(page) == [long, "**What** stays.", "Whether it runs."]
    assert faults("What is it? A [thing](a.md).") == []
    source = '"""Thing."""\nx = 1  # What is left\n# A line\n# which goes on\ndef f():\n    """Whether it runs."""\n'
    assert relative_beginnings(source) == ["Whether it runs.", "What is left"]

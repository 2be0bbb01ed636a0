"""Every python block of README.md and docs/*.md runs, and every relative link leads somewhere."""

import re
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.exists()]
NOT_RUN = re.compile(r"<!-- not run: (\S.*) -->")


class Snippet(NamedTuple):
    line: int  # of the fence
    code: str
    not_run: str | None  # the reason


def snippets(page):
    found, before = [], None
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "fence" and token.info.strip() == "python":
            reason = before and NOT_RUN.fullmatch(before)
            found.append(Snippet(token.map[0] + 1, token.content, reason and reason[1]))
        before = token.content.strip() if token.type == "html_block" else None
    return found


def run(page):
    """Run the blocks of a page from top to bottom in one namespace."""
    namespace = {"__name__": "__main__"}
    for snippet in snippets(page):
        if snippet.not_run:
            continue
        code = "\n" * snippet.line + snippet.code  # tracebacks then name the page's own lines
        try:
            exec(compile(code, page, "exec"), namespace)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == str(page)]
            line = lines[-1] if lines else error.lineno  # of a SyntaxError
            pytest.fail(f"{page.name}:{line}: {type(error).__name__}: {error}", pytrace=False)


def broken_links(page):
    broken = []
    for token in MarkdownIt().parse(page.read_text()):
        for child in token.children or []:
            target = child.attrs.get("href", child.attrs.get("src"))
            if target is None or target.startswith("#") or re.match(r"[a-z]+:", target):
                continue
            if not (page.parent / target.partition("#")[0]).exists():
                broken.append(f"{page.name}:{token.map[0] + 1}: {target}")
    return broken


def not_run():
    for page in PAGES:
        for snippet in snippets(page):
            if snippet.not_run:
                reason = f"{page.name}:{snippet.line} is not run: {snippet.not_run}"
                yield pytest.param(
                    page, id=f"{page.name}:{snippet.line}", marks=pytest.mark.skip(reason=reason)
                )


@pytest.mark.parametrize("page", [*(pytest.param(page, id=page.name) for page in PAGES), *not_run()])
def test_snippets(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    assert broken_links(page) == []


@pytest.fixture
def page(tmp_path):
    def write(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        return path

    return write


def test_blocks_of_a_page_share_names(page):
    run(page("```python\nx = 1\n```\n\ntext\n\n```python\nassert x == 1\n```\n"))


@pytest.mark.parametrize("body", ["1 / 0", "def f():\n    1 / 0\nf()", "x ="])
def test_a_broken_snippet_is_named(page, body):
    line = 6 + body.startswith("def")
    with pytest.raises(pytest.fail.Exception, match=rf"^page\.md:{line}: "):
        run(page(f"# Title\n\ntext\n\n```python\n{body}\n```\n"))


def test_a_snippet_is_left_out_only_with_a_reason(page):
    block = "\n```python\n1 / 0\n```\n"
    run(page("<!-- not run: needs a GPU -->\n" + block))
    for comment in ("<!-- not run -->", "<!-- not run: -->", "<!-- not run: needs a GPU -->\n\ntext"):
        with pytest.raises(pytest.fail.Exception, match="ZeroDivisionError"):
            run(page(f"{comment}\n{block}"))


def test_a_broken_link_is_named(page):
    text = "[itself](page.md#part) [away](https://example.org) [part](#part)\n\n![picture](none.png)\n"
    assert broken_links(page(text)) == ["page.md:3: none.png"]

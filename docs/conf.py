import re
from functools import partial

from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.logging import getLogger

logger = getLogger(__name__)

project = "onenth"
copyright = "the onenth authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
default_role = "code"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 100
nitpick_ignore_regex = [("py:.*", r"(torch|os|collections)\..*")]  # their pages are not at hand offline

html_theme = "furo"
html_title = "onenth"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"


# docutils would draw the index of an accented letter below it; wrapped, it stands beside it
ACCENT = r"\\(?:tilde|hat|bar|dot|vec|overline|widetilde|widehat)"
LETTER = r"(?:[a-zA-Z]|\\[a-zA-Z]+|\{[^{}]*\})"
ACCENTED = re.compile(rf"({ACCENT}\s*{LETTER})(?=\s*[_^])")


def mathml(translator, node, as_block):
    """Draw mathematics without a script and without the network."""
    tex = ACCENTED.sub(r"{{}\1}", node.astext())
    try:
        translator.body.append(tex2mathml(tex, as_block))
    except MathError as error:
        logger.warning("%s", error, location=node)


def leave(translator, node):
    pass


def formulas(app, what, name, obj, options, lines):
    """Show an indented formula of a docstring line by line, as it stands there."""
    for i in reversed(range(2, len(lines))):
        text, blank, formula = lines[i - 2 : i + 1]
        if formula.startswith(" ") and not blank and text[:1].strip() and not text.endswith("::"):
            lines[i:i] = ["::", ""]
    if what == "property":
        lines[:0] = ["..", ""]  # or napoleon takes what stands before a colon for a type


def setup(app):
    app.connect("autodoc-process-docstring", formulas, priority=400)  # before napoleon
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(partial(mathml, as_block=False), leave),
        block_renderers=(partial(mathml, as_block=True), leave),
    )

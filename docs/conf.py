"""How the documentation site is built: ``python -m sphinx -W --keep-going -b html docs build/docs``.

The build needs no network, and neither does the site: the formulas are drawn by a copy of MathJax beside the pages, and
every figure is drawn while the site is built.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from docutils import nodes

from hammemo import __version__

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from fidelity_figures import fidelity_figures
from figures import fill_page, read_runs

if TYPE_CHECKING:
    from sphinx.application import Sphinx

mpl.use("agg")

project = "hammemo"
author = "The hammemo developers"
project_copyright = "2026, The hammemo developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
exclude_patterns = ["gallery/*.rst"]  # the gallery's pages are made in generated/
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's configuration holds a function
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!hammemo\.).*")]  # types in docstrings are prose; full names must be found

# Markdown: the pages are read on GitHub too, so they use little beyond tables, links and formulas.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# The reference.
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say what a parameter is
autodoc_member_order = "bysource"
default_role = "py:obj"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Shapes", ("Attributes", "params_style")]

_BACK_LINK = re.compile(
    r'(?P<before>class="viewcode-back" href="[^"#]*/(?P<page>(?:\w+\.)+(?P<name>\w+))\.html#)(?P<anchor>[\w.]+)'
)
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]


def _style(_config: dict[str, object], _script: str) -> None:
    """Set colours that people with any colour vision tell apart (Okabe and Ito's), before each script."""
    mpl.rcParams["axes.prop_cycle"] = mpl.cycler(color=_COLOURS)
    mpl.rcParams.update({"font.size": 11, "axes.grid": True, "grid.alpha": 0.25, "savefig.bbox": "tight"})


# The gallery: every script is run, and a failing one fails the build.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "min_reported_time": 1e9,  # times are of the machine that built the site
    "write_computation_times": False,
    "notebook_extensions": {".py"},  # each script can be downloaded as a notebook
    "show_signature": False,
    "reset_modules": ("matplotlib", _style),
    "image_srcset": ["2x"],
}

# How it looks.
html_theme = "furo"
html_title = f"hammemo {version}"
html_static_path = ["_static"]
html_css_files = ["hammemo.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ |> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

# Formulas: one file, no fonts to fetch, no network.
mathjax_path = "mathjax/tex-svg.js"


def _draw_committed_results(app: Sphinx, error: Exception | None) -> None:
    """Draw the figures of ``python -m benchmarks.experiments hashed`` anew, from the numbers it printed.

    The pages show the committed files, so that they can be read without a build; the site has these.
    """
    if error is None and app.builder.format == "html":
        results = json.loads((Path(app.srcdir) / "figures" / "hashed.json").read_text(encoding="utf-8"))
        with mpl.rc_context():
            mpl.rcdefaults()  # not the gallery's style: these are the files that the command writes
            fidelity_figures(results, Path(app.outdir) / "_images")


def _copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Put the one file of MathJax that the pages load beside them."""
    if error is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / mathjax_path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((files("sphinx-mathjax-offline") / "static" / mathjax_path).read_bytes())


def _skip_what_is_not_ours(_app: Sphinx, _kind: str, _name: str, member: object, skip: bool, _options: object) -> bool:
    """Leave out what scikit-learn adds to every estimator."""
    return skip or (getattr(member, "__module__", None) or "").startswith("sklearn.")


def _set_shapes_as_code(
    _app: Sphinx, _kind: str, _name: str, _member: object, _options: object, lines: list[str]
) -> None:
    """Set the lines of a section "Shapes" as code: they are expressions such as ``(m, len(classes_))``."""
    for start in [place for place, line in enumerate(lines) if line.strip() == "Shapes"]:
        for place in range(start + 2, len(lines)):
            if not lines[place].strip():
                break
            lines[place] = f"``{lines[place].strip()}``"


def _link_the_gallery(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Turn links to the gallery's scripts, which work on GitHub, into links to the pages made of them."""
    source[0] = re.sub(r"\]\((\.\./)?gallery/(plot_\w+)\.py\)", r"](\1generated/gallery/\2.rst)", source[0])
    source[0] = source[0].replace("](gallery/)", "](generated/gallery/index.rst)")


def _take_figures(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Put the measured figures into the pages."""
    source[0] = fill_page(source[0], read_runs(), comments=False)


def _lead_back_to_where_a_name_is_listed(
    _app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    """Give the links from a source page back to the reference their anchors: the name by which each is listed.

    One file may define `hammemo.save` and `hammemo.files.read_notes`; viewcode takes the module of the first name that
    it meets for all of them. The page of a name is called by it.
    """

    def mended(link: re.Match[str]) -> str:
        member = link["anchor"].rsplit(f".{link['name']}.", 1)[1:]  # of a class
        return link["before"] + ".".join([link["page"], *member])

    if page.startswith("_modules/") and "body" in context:
        context["body"] = _BACK_LINK.sub(mended, context["body"])


def _trim_code(_app: Sphinx, page: nodes.document) -> None:
    """Drop the blank line at the end of an example, which is there for doctest only."""
    for block in page.findall(nodes.literal_block):
        if block.rawsource == block.astext():
            block.rawsource = block.rawsource.rstrip()
            block[:] = [nodes.Text(block.rawsource)]


def setup(app: Sphinx) -> None:
    """Connect all of the above to the build."""
    app.connect("source-read", _link_the_gallery)
    app.connect("source-read", _take_figures)
    app.connect("doctree-read", _trim_code)
    app.connect("html-page-context", _lead_back_to_where_a_name_is_listed)
    app.connect("autodoc-skip-member", _skip_what_is_not_ours)
    app.connect("autodoc-process-docstring", _set_shapes_as_code, priority=100)  # before napoleon
    app.connect("build-finished", _copy_mathjax)
    app.connect("build-finished", _draw_committed_results)

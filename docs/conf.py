"""How the documentation site is built: ``python -m sphinx -W --keep-going -b html docs build/docs``.

The build needs no network, and neither does the site: the formulas are drawn by a copy of MathJax beside the pages, and
every figure is drawn while the site is built.
"""

from __future__ import annotations

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

from hammemo import __version__
from hammemo.experiments.figures import fidelity_figures

if TYPE_CHECKING:
    from sphinx.application import Sphinx

os.environ["NO_COLOR"] = "1"

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
exclude_patterns = ["generated/gallery/*.py", "generated/gallery/*.ipynb", "gallery/*.rst"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's configuration holds a class
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!hammemo\.).*")]  # types in docstrings are prose; full names must be found

# Markdown: the pages are read on GitHub too, so they use little beyond tables, links and formulas.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# The reference.
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say what a parameter is
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = True
autodoc_default_options = {"members": True, "inherited-members": True}
default_role = "py:obj"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Shapes"]

# The gallery: every script is run, and a failing one fails the build.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "min_reported_time": 1e9,  # times are of the machine that built the site
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "image_scrapers": ("matplotlib",),
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
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

# Formulas: one file, no fonts to fetch, no network.
mathjax_path = "mathjax/tex-svg.js"

mpl.use("agg")


def _copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Put the one file of MathJax that the pages load beside them."""
    package = find_spec("sphinx-mathjax-offline")
    if error is None and app.builder.format == "html" and package is not None and package.origin is not None:
        target = Path(app.outdir) / "_static" / mathjax_path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(package.origin).parent / "static" / mathjax_path, target)


def _skip_what_is_not_ours(_app: Sphinx, _kind: str, _name: str, member: object, skip: bool, _options: object) -> bool:
    """Leave out what scikit-learn adds to every estimator."""
    return skip or (getattr(member, "__module__", None) or "").startswith("sklearn.")


def _set_shapes_as_code(_app: Sphinx, _kind: str, _name: str, _member: object, _options: object, lines: list[str]) -> None:
    """Set the lines of a section "Shapes" as code: they are expressions such as ``(m, len(classes_))``."""
    for start in [place for place, line in enumerate(lines) if line.strip() == "Shapes"]:
        for place in range(start + 2, len(lines)):
            if not lines[place].strip():
                break
            lines[place] = f"``{lines[place].strip()}``"


def setup(app: Sphinx) -> None:
    """Hook in what the pages need beside themselves."""
    app.connect("autodoc-skip-member", _skip_what_is_not_ours)
    app.connect("autodoc-process-docstring", _set_shapes_as_code, priority=100)  # before napoleon
    app.connect("build-finished", _copy_mathjax)

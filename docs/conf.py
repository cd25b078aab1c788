"""Configuration of the site that scripts/docs builds from the pages of this folder."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import notebooks  # noqa: E402
from theme import DARK, LIGHT  # noqa: E402

import syft  # noqa: E402

project = "resyft"
copyright = "the resyft contributors"
version = release = syft.__version__
html_title = f"resyft {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "repository_links",
    "page_lists",
    "anchors",
    "layer_chart",
    "mathml",
    "public_api",
    "commands",
]
exclude_patterns = ["_build", "_ext", "README.md"]
templates_path: list[str] = []
smartquotes = False  # `--option` stays as it is
default_role = "literal"  # docstrings have single backquotes, as Markdown has
suppress_warnings = ["config.cache", "mystnb.unknown_mime_type"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "cache" if notebooks.enabled() else "off"
nb_execution_cache_path = str(notebooks.cache_folder())  # names the version of the library: a change reads all again
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = notebooks.TIMEOUT
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # they would come from another host
nb_merge_streams = True
nb_code_prompt_show = "Show the {type}"
nb_code_prompt_hide = "Hide the {type}"

toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 72
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": LIGHT,
    "dark_css_variables": DARK,
    "navigation_with_keys": True,
}
pygments_style = "default"
pygments_dark_style = "github-dark"

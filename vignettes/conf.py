"""The documentation site: `sphinx-build -W -b html vignettes build/site`."""

import json
import os
import sys
from pathlib import Path

import dpinfer

HERE = Path(__file__).parent
EXTENSIONS = HERE / "extensions"
sys.path.insert(0, str(EXTENSIONS))
os.environ["PYTHONSTARTUP"] = str(EXTENSIONS / "notebook_look.py")  # IPython's kernels run it

project = "dpinfer"
author = "The dpinfer developers"
copyright = author  # noqa: A001 -- the name that Sphinx reads
version = release = dpinfer.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "api_topics",
    "mathml",
    "light_and_dark",
]
exclude_patterns = ["conf.py", "extensions", "examples"]

# pages
html_theme = "furo"
html_title = "dpinfer"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_extra_path = ["versions.json"]  # add a line for each version that is released
html_context = {"versions": json.loads((HERE / "versions.json").read_text(encoding="utf-8"))}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/version.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = False
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "py:obj"
nitpicky = True  # references to names that are not documented are warnings
nitpick_ignore_regex = [("py:obj", ".*"), ("py:.*", r"(numpy|scipy|pandas|statsmodels)\..*")]

# vignettes and pages with code are executed; an error in one is a warning with its traceback
nb_custom_formats = {".py": ["vignette_reader.read_vignette", {}, False]}
nb_execution_mode = "force"
nb_execution_show_tb = True
nb_execution_timeout = 600
nb_merge_streams = True
nb_code_prompt_show = nb_code_prompt_hide = "Code"
nb_output_stderr = "remove-warn"  # a page that warns is mended, not built

# the reference
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 70

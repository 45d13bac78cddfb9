# What Sphinx is told about the site. docs/build calls it; docs/generator/stage.py has put the pages
# into its source folder, build/site_pages.
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))

project = "Hero"
author = copyright = ""
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
extensions = ["myst_parser", "sphinx_copybutton", "hero_site"]
root_doc = "index"
language = "en"

# Markdown as a forge reads it: no roles, targets or comments of MyST's own.
myst_enable_extensions = ["dollarmath"]
myst_disable_syntax = ["myst_role", "myst_target", "myst_line_comment", "myst_block_break"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
myst_heading_anchors = 6
myst_url_schemes = {"http": None, "https": None, "mailto": None, "hero": None}
# Text that is printed stands in blocks without a language.
highlight_language = "none"
pygments_style = "default"
pygments_dark_style = "github-dark"

html_math_renderer = "mathml"
html_theme = "furo"
html_title = "Hero"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme_options = {
    "navigation_with_keys": True,
    "footer_icons": [],
    "light_css_variables": {"color-brand-primary": "#0b57a4", "color-brand-content": "#0b57a4"},
    "dark_css_variables": {"color-brand-primary": "#8ab8f0", "color-brand-content": "#8ab8f0"},
}
# A prompt is not part of what is copied.
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp"

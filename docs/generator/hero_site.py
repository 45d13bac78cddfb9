"""What Sphinx does not do by itself for the site: formulas as MathML, pages that show source files,
links from names to the API reference, and a search that needs no server."""
import html
import json
import math
import pathlib
import posixpath
import re
import shutil
import xml.etree.ElementTree as ElementTree

import latex2mathml.converter
import ziamath
from docutils import nodes
from fontTools import subset
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

TREE = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = TREE / "build/site_reference"  # where docs/build lets Doxygen write
FONT = "STIXTwoMath.woff2"


# Formulas: MathML, which browsers draw by themselves, with the font that is copied below.


MATHML = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", MATHML)


def raise_brackets(text):
    """Exponents and indices of a closing bracket are those of all that is in brackets, so that both
    brackets grow with it."""
    root = ElementTree.fromstring(text)
    for row in list(root.iter()):
        at = 0
        while at < len(row):
            child = row[at]
            if re.fullmatch(r"\{.*\}ms(up|ub|ubsup)", child.tag) and (child[0].text or "") in (")", "]"):
                close = child[0].text
                open_, depth, first = {")": "(", "]": "["}[close], 1, at
                while depth and first > 0:
                    first -= 1
                    sibling = row[first]
                    if re.fullmatch(r"\{.*\}ms(up|ub|ubsup)", sibling.tag):
                        sibling = sibling[0]
                    depth += (sibling.text == close) - (sibling.text == open_)
                if not depth:
                    base = ElementTree.Element(f"{{{MATHML}}}mrow")
                    base.extend([*row[first:at], child[0]])
                    child[0] = base
                    for _ in range(at - first):
                        del row[first]
                    at = first
            at += 1
    return ElementTree.tostring(root, encoding="unicode")


def mathml(source, display):
    text = latex2mathml.converter.convert(source, display=display)
    # What TeX does and the converter does not: a space after the name of a function, none around a
    # slash or after a sign, and primes, which the font has in their place already.
    text = re.sub(r"(<m([io])>(?:sin|cos|tan|ln|log|exp|max|min)</m\2>)(?=<m(?!o|space))",
                  r'\1<mspace width="0.17em"/>', text)
    text = text.replace("<mo>&#x0002F;</mo>", '<mo lspace="0" rspace="0">&#x0002F;</mo>')
    text = re.sub(r"(<mo[^>]*>(?!&#x0(?:0029|005D|007C|2016);)[^<]*</mo>)<mo>(&#x0(?:2212|002B);)</mo>",
                  r'\1<mo form="prefix">\2</mo>', text)
    text = re.sub(r"<msup>(<mi>[^<]*</mi>)<mi>(&#x0203[234];)</mi></msup>",
                  r'<mrow>\1<mo lspace="0.05em" rspace="0">\2</mo></mrow>', text)
    text = raise_brackets(text)
    label = html.escape(" ".join(source.split()), quote=True)
    return text.replace("<math ", f'<math alttext="{label}" ', 1)


def inline_math(self, node):
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block_math(self, node):
    self.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def narrow_roots(font):
    """Chromium reserves for a root the width of the widest of the font's signs, which leaves a gap
    behind most roots: the larger signs become as wide as the smallest."""
    sign = font.getBestCmap()[0x221A]
    variants = font["MATH"].table.MathVariants
    construction = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(sign)]
    others = {each.VariantGlyph for each in construction.MathGlyphVariantRecord}
    others |= {part.glyph for part in construction.GlyphAssembly.PartRecords}
    width = font["hmtx"][sign][0]
    for name in others - {sign}:
        glyph, (old, bearing) = font["glyf"][name], font["hmtx"][name]
        glyph.coordinates.scale((width / old, 1))
        glyph.coordinates.toInt()
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, round(bearing * width / old))


def write_font(app, letters):
    """The glyphs of the formulas' letters, and the larger and smaller forms of these."""
    source = pathlib.Path(ziamath.__file__).parent / "fonts/STIXTwoMath-Regular.ttf"
    options = subset.Options()
    options.flavor = "woff2"
    options.layout_features = ["*"]
    font = subset.load_font(str(source), options)
    narrow_roots(font)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(sorted(letters)))
    subsetter.subset(font)
    subset.save_font(font, str(pathlib.Path(app.outdir) / "_static" / FONT), options)


# Names in the text that are code become links to the API reference.


def read_names(file):
    """{name: page#anchor} of Doxygen's tag file: the full names and, where only one thing ends that
    way, the ends of them."""
    full, ends = {}, {}
    for compound in ElementTree.parse(file).getroot():
        kind, name = compound.get("kind"), compound.findtext("name")
        if kind in ("file", "group", "page", "dir"):
            continue
        if kind != "namespace":
            full.setdefault(name, compound.findtext("filename"))
        for member in compound.findall("member"):
            if member.findtext("name").startswith("operator") or member.get("kind") == "friend":
                continue
            if name.endswith("::" + member.findtext("name")):
                continue  # a constructor, which the class's page has
            at = f"{member.findtext('anchorfile')}#{member.findtext('anchor')}"
            full.setdefault(f"{name}::{member.findtext('name')}", at)
    for name, at in full.items():
        words = name.split("::")
        for i in range(1, len(words)):
            ends.setdefault("::".join(words[i:]), set()).add(name)
    found = dict(full)
    for end, names in ends.items():
        shortest = min(names, key=lambda each: (each.count("::"), each))
        alone = [each for each in names if each.count("::") == shortest.count("::")]
        if end not in found and len(alone) == 1:
            found[end] = full[shortest]
    return found


# Too common as words of other languages, of mathematics or of a shell to mean a name of Hero.
COMMON = {"x", "y", "a", "b", "to", "in", "data", "at", "name", "value", "size", "step", "run", "on",
          "off", "mean", "cpu", "cuda", "out", "other", "begin", "end", "first", "second"}


def link_names(app, doctree, docname):
    names = app.hero_names
    for node in list(doctree.findall(nodes.literal)):
        parent = node.parent
        if any(isinstance(up, (nodes.reference, nodes.title)) for up in ancestors(node)):
            continue
        text = node.astext()
        name = re.sub(r"\((\.\.\.)?\)$|<[^<>]*>(\(\))?$", "", text).removeprefix("hero::")
        if name in COMMON or len(name) < 3:
            continue
        at = names.get(name) or names.get("hero::" + name)
        if at is None:
            continue
        uri = app.builder.get_relative_uri(docname, "reference/x").rsplit("/", 1)[0] + "/" + at
        link = nodes.reference("", "", internal=True, refuri=uri, classes=["api"])
        parent.replace(node, link)
        link += node


def ancestors(node):
    while node.parent is not None:
        node = node.parent
        yield node


# hero:PATH#NAME, which stage.py writes, is a file of the site.


def link_files(app, doctree, docname):
    up = posixpath.relpath(".", posixpath.dirname(docname) or ".")
    for node in doctree.findall(nodes.reference):
        uri = node.get("refuri", "")
        if uri.startswith("hero:#"):
            node["refuri"] = uri.removeprefix("hero:")
        elif uri.startswith("hero:"):
            node["refuri"] = posixpath.join(up, uri.removeprefix("hero:"))
        elif re.match(r"https?:", uri):
            node["classes"] += ["external"]


READABLE = 12  # pixels: the smallest type of a figure on a narrow screen


def readable_width(file):
    """How many pixels wide a drawing is whose smallest type, but for indices, has READABLE of them; 0 of a photograph."""
    if file.suffix != ".svg":
        return 0
    text = re.sub(r"<tspan[^>]*(dy=|baseline-shift)[^>]*>", "", file.read_text(encoding="utf-8"))
    width = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+)', text)
    sizes = [float(size) for size in re.findall(r"font-size\s*[=:]\s*[\"']?([\d.]+)", text)]
    return math.ceil(float(width[1]) * READABLE / min(sizes)) if width and sizes else 0


def figures(app, doctree, docname):
    """A paragraph that is an image, and one in italics after it, are a figure and its caption."""
    for image in list(doctree.findall(nodes.image)):
        paragraph = image.parent
        if not isinstance(paragraph, nodes.paragraph) or len(paragraph) != 1:
            continue
        figure = nodes.container(classes=["figure"])
        after = paragraph.next_node(descend=False, siblings=True)
        at = paragraph.parent.index(paragraph)
        paragraph.parent.replace(paragraph, figure)
        file = pathlib.Path(app.srcdir) / posixpath.dirname(docname) / image["uri"]
        if not file.is_file():  # an address from the top, as Sphinx has made it
            file = pathlib.Path(app.srcdir) / image["uri"]
        name = html.escape(image.get("alt") or "figure", quote=True)
        style = f' style="--readable: {width}px"' if (width := readable_width(file)) else ""
        figure += nodes.raw("", f'<div class="picture" role="group" aria-label="{name}"{style}>', format="html")
        figure += paragraph
        figure += nodes.raw("", "</div>", format="html")
        if isinstance(after, nodes.paragraph) and len(after) == 1 and isinstance(after[0], nodes.emphasis):
            figure.parent.pop(at + 1)
            caption = nodes.paragraph(classes=["caption"])
            caption += [child.deepcopy() for child in after[0].children]
            figure += caption


# The search: one entry a section, in a script, since pages that lie in a file may not fetch.


def text_of(node, letters):
    if isinstance(node, (nodes.math, nodes.math_block)):
        return " "
    if isinstance(node, (nodes.literal_block, nodes.raw, nodes.image, nodes.comment)):
        return " "
    if isinstance(node, nodes.section) or "toctree" in type(node).__name__:
        return " "
    if isinstance(node, nodes.Text):
        return node.astext()
    inner = "".join(text_of(child, letters) for child in node.children)
    return inner if isinstance(node, nodes.Inline) else inner + " "


def index_page(app, doctree, docname):
    for node in list(doctree.findall(nodes.math)) + list(doctree.findall(nodes.math_block)):
        plain = re.sub(r"<[^>]*>", "", mathml(node.astext(), "inline"))
        app.hero_letters.update(html.unescape(plain))
    if docname in app.hero_lists:
        return
    title = doctree.next_node(nodes.title)
    page = title.astext() if title else docname
    for section in doctree.findall(nodes.section):
        heading = section.next_node(nodes.title).astext()
        body = "".join(text_of(child, None) for child in section.children
                       if not isinstance(child, (nodes.title, nodes.section)))
        top = isinstance(section.parent, nodes.document)
        uri = app.builder.get_target_uri(docname) + ("" if top else "#" + section["ids"][0])
        app.hero_index.append([page, "" if top else heading, uri, " ".join(body.split())])


def finish(app, exception):
    if exception or app.builder.format != "html":
        return
    out = pathlib.Path(app.outdir)
    if REFERENCE.is_dir():
        shutil.copytree(REFERENCE / "reference", out / "reference", dirs_exist_ok=True)
    names = [[name.removeprefix("hero::"), at] for name, at in sorted(app.hero_names.items())
             if name.startswith("hero::")]
    (out / "_sources").rmdir()  # Sphinx makes it for copies of the pages, of which there are none
    static = out / "_static"
    text = json.dumps({"sections": app.hero_index, "names": names}, ensure_ascii=False,
                      separators=(",", ":"))
    (static / "search_index.js").write_text(f"const searchIndex = {text};\n")
    if app.hero_letters:
        # browsers draw a variable as the letter of mathematical italics
        italics = [*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C), 0x210E]
        write_font(app, app.hero_letters | {chr(c) for c in italics} | set("0123456789.,()[]{}|+-−=√"))
    interactive = static / "interactive"
    interactive.mkdir(exist_ok=True)
    for file in (TREE / "docs/site").glob("*"):
        if file.name == "parts.css" or file.suffix == ".js":
            shutil.copy(file, interactive)


def more_pages(app):
    """The search, and a page for each source file that a page links to."""
    yield "search", {"title": "Search", "body": ""}, "find.html"
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True)
    for path in (pathlib.Path(app.srcdir) / "sources.txt").read_text().split():
        code = (TREE / path).read_text()
        try:
            lexer = get_lexer_for_filename(path)
        except ClassNotFound:
            lexer = TextLexer()
        body = f'<h1>{path}</h1>\n<div class="source">{highlight(code, lexer, formatter)}</div>'
        yield f"source/{path}", {"title": path, "body": body}, "page.html"


def start(app):
    app.builder.search = False  # Sphinx's own index of words; hero_site has another
    file = REFERENCE / "names.xml"
    app.hero_names = read_names(file) if file.is_file() else {}
    app.hero_index, app.hero_letters = [], set()
    # pages that only lead to others
    app.hero_lists = (pathlib.Path(app.srcdir) / "lists.txt").read_text().split()


def page_context(app, pagename, template, context, doctree):
    context["hero_reference"] = bool(app.hero_names)


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(inline_math, None),
                               block_renderers=(block_math, None))
    app.connect("builder-inited", start)
    app.connect("doctree-resolved", link_files)
    app.connect("doctree-resolved", figures)
    app.connect("doctree-resolved", index_page)
    app.connect("doctree-resolved", link_names)
    app.connect("html-collect-pages", more_pages)
    app.connect("html-page-context", page_context)
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}

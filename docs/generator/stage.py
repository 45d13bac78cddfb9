"""stage.py TREE FOLDER: writes the pages of a source tree into a folder as Sphinx wants them.

The pages stay as they lie in the tree, README.md and docs/**/*.md; what the folder has is made anew
by each build. The links of a page become links within the site:

- to a page: the same, where README.md is index.md, and of docs/README.md each section with links to
  pages is one, which has these pages below it in the navigation, and the rest is pages.md and api.md;
- to a file of the tree, such as a program: a page of the site that shows it (hero:source/...);
- to docs/site/index.html: the same part on this page, where it is embedded, or on interactive.md.

<!-- interactive: PART KEY=VALUE... --> in a page becomes that part of docs/site/index.html, with the
choices KEY=VALUE at the start, in place of the picture that follows, if its name ends in _site.png.

What lies between <!-- tabs --> and <!-- end tabs --> is one tab for each line that is nothing but
**A NAME**, of which site.js shows one at a time. A forge shows them one below the other.
"""
import os
import pathlib
import re
import shutil
import sys

# The section of docs/README.md that is on the page of the API reference.
HEADERS = "Which header, which namespace"
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
LINK = re.compile(r"`[^`]*`|\]\(([^()\s]+)\)")
MARKER = re.compile(r"^<!-- interactive: ([a-z]+)((?: [a-z-]+=\S+)*) -->$")
TAB = re.compile(r"^\*\*([^*]+)\*\*$")
SCRIPTS = re.compile(r'<script src="([a-z]+\.js)"></script>')


class Fault(Exception):
    """Something that a page says and the tree has not."""


def outside_of_code(text, change):
    """The text with change(line) in place of each line that is not in a fenced block."""
    lines, fence = [], None
    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and line.strip() == found[1]:
                fence = None
        elif found:
            fence = found[1]
        else:
            line = change(line)
        lines.append(line)
    return "\n".join(lines)


def anchor(heading):
    """The anchor that a forge gives a heading."""
    heading = re.sub(r"\]\([^)]*\)|\[", "", heading.lower())
    return re.sub(r"[^a-z0-9 _-]", "", heading).replace(" ", "-")


def sections(text):
    """What comes before the first heading of level 2, and a pair (heading, text) for each of them."""
    parts, found = [["", []]], []

    def take(line):
        if line.startswith("## "):
            found.append(line)
            return "\0" + line
        return line

    for line in outside_of_code(text, take).split("\n"):
        if line.startswith("\0"):
            parts.append([line[4:], []])
            line = line[1:]
        parts[-1][1].append(line)
    (_, first), *rest = parts
    return "\n".join(first), [(name, "\n".join(lines)) for name, lines in rest]


class Stage:
    def __init__(self, tree, folder):
        self.tree, self.folder = tree, folder
        self.sources = set()
        self.readme = (tree / "README.md").read_text()
        pages = ["README.md"] + sorted(
            str(p.relative_to(tree)) for p in (tree / "docs").rglob("*.md"))
        self.pages = {page: self.place(page) for page in pages}
        # by the anchor of each section of docs/README.md, the page that it becomes
        index = sections((tree / "docs/README.md").read_text())[1]
        self.groups = {anchor(name): self.group(name) for name, _ in index}
        self.parts = self.read_parts()
        self.embeds = {}
        for page in pages:
            lines = (tree / page).read_text().split("\n")
            self.embeds[page] = {m[1] for m in map(MARKER.match, lines) if m}

    @staticmethod
    def place(page):
        """Where a page of the tree lies in the site."""
        if page == "README.md":
            return "index.md"
        page = page.removeprefix("docs/")
        return "pages.md" if page == "README.md" else page

    @staticmethod
    def group(name):
        return "api.md" if name == HEADERS else anchor(name).strip("-") + ".md"

    def read_parts(self):
        """The sections of the interactive page, and its scripts in order."""
        html = (self.tree / "docs/site/index.html").read_text()
        self.scripts = SCRIPTS.findall(html)
        parts = re.findall(r'<section id="([a-z]+)".*?</section>', html, re.S)
        return {name: re.search(rf'<section id="{name}".*?</section>', html, re.S)[0]
                for name in parts}

    def target(self, page, target):
        """What the link of a page of the tree to `target` is in the site."""
        if re.match(r"^[a-z]+:", target):
            return target
        path, _, name = target.partition("#")
        name = "#" + name if name else ""
        if not path and page != "README.md":
            return target
        here = os.path.dirname(page)
        full = os.path.normpath(os.path.join(here, path)) if path else page
        if full == "docs/site/index.html":
            if name and name[1:] in self.embeds[page]:
                return "hero:" + name
            return "hero:interactive.html" + name
        if full == "README.md":
            place = "index.md"
        elif full == "docs/README.md":
            place, name = self.groups.get(name[1:], "pages.md" + name), ""
        elif full in self.pages:
            place = self.pages[full]
        elif (self.tree / full).is_file():
            if full.startswith("docs/figures/"):
                return self.relative(page, full.removeprefix("docs/"))
            self.sources.add(full)
            return "hero:source/" + full + ".html" + name
        else:
            raise Fault(f"{page}: no {target}")
        return self.relative(page, place) + name

    def relative(self, page, place):
        return os.path.relpath(place, os.path.dirname(self.pages.get(page, page)) or ".")

    def links(self, page, text):
        def one(match):
            return match[0] if match[1] is None else f"]({self.target(page, match[1])})"

        return outside_of_code(text, lambda line: LINK.sub(one, line))

    def part(self, page, name, choices):
        """A part of the interactive page as HTML of another page."""
        if name not in self.parts:
            raise Fault(f"{page}: docs/site/index.html has no part {name}")
        place = self.pages.get(page, page)
        up = "../" * place.count("/")

        def href(match):
            path, _, name = match[1].partition("#")
            to = "#" + name if name else ""
            if path:
                full = os.path.normpath("docs/site/" + path)
                if full not in self.pages:
                    raise Fault(f"docs/site/index.html: no page {match[1]}")
                to = up + self.pages[full].removesuffix(".md") + ".html" + to
            return f'href="{to}"'

        html = re.sub(r'href="([^"]*)"', href, self.parts[name])
        for choice in choices.split():
            key, value = choice.split("=", 1)
            html = html.replace("<section ", f'<section data-{key}="{value}" ', 1)
        html = html.replace("\n\n", "\n")
        return f'```{{raw}} html\n<div class="interactive">\n{html}\n</div>\n```\n', up

    def embed(self, page, text):
        """The text with each marker of an interactive part replaced by the part."""
        seen, up = False, ""
        lines, skip = [], False
        for line in text.split("\n"):
            found = MARKER.match(line)
            if found:
                html, up = self.part(page, found[1], found[2])
                lines += ["", html]
                seen = skip = True
            elif skip and re.match(r"^!\[.*_site\.png\)$", line):
                skip = False
            else:
                skip = skip and not line
                lines.append(line)
        if seen:
            tags = "\n".join(f'<script defer src="{up}_static/interactive/{s}"></script>'
                             for s in self.scripts)
            style = f'<link rel="stylesheet" href="{up}_static/interactive/parts.css">'
            lines += ["", f"```{{raw}} html\n{style}\n{tags}\n```", ""]
        return "\n".join(lines)

    @staticmethod
    def tabs(page, text):
        """The text with containers around what belongs into tabs."""
        lines, fence, tabs, open_ = [], None, False, False
        for line in text.split("\n"):
            found = FENCE.match(line)
            if fence:
                fence = None if line.strip() == fence else fence
            elif found:
                fence = found[1]
            elif line == "<!-- tabs -->":
                tabs, line = True, "``````{container} tabs"
            elif line == "<!-- end tabs -->":
                if not tabs:
                    raise Fault(f"{page}: the end of tabs that have no beginning")
                line = "`````\n``````" if open_ else "``````"
                tabs = open_ = False
            elif tabs and TAB.match(line):
                line = ("`````\n\n" if open_ else "") + "`````{container} tab\n" + line
                open_ = True
            lines.append(line)
        if tabs:
            raise Fault(f"{page}: tabs without an end")
        return "\n".join(lines)

    def write(self, place, text):
        to = self.folder / place
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists() or to.read_text() != text:  # what has not changed is not built anew
            to.write_text(text)
        self.written.add(to)

    def tocs(self):
        """The navigation: for each section of docs/README.md its heading, its text, and the places of
        the pages that it names, in its order."""
        _, named = sections((self.tree / "docs/README.md").read_text())
        seen, found = set(), []
        for heading, text in named:
            if heading == HEADERS:
                continue
            places = []
            for match in LINK.finditer(text):
                if not match[1] or "#" in match[1]:
                    continue
                full = os.path.normpath("docs/" + match[1])
                if full in self.pages and full not in seen and full != "README.md":
                    seen.add(full)
                    places.append(self.pages[full])
            found.append([heading, text, places])
        left = set(self.pages) - seen - {"README.md", "docs/README.md"}
        if left:
            raise Fault(f"docs/README.md: does not name {sorted(left)[0]}")
        return found

    @staticmethod
    def toctree(places):
        rows = "\n".join(place.removesuffix(".md") for place in places)
        return f"\n\n```{{toctree}}\n:hidden:\n\n{rows}\n```\n"

    def lists(self, tocs):
        """A page for each section of docs/README.md, pages.md with what comes before, and api.md."""
        index = (self.tree / "docs/README.md").read_text()
        head, named = sections(index)
        for heading, text, places in tocs:
            text = "#" + self.links("docs/README.md", text).split("\n", 1)[0].removeprefix("##") + "\n" + (
                self.links("docs/README.md", text.split("\n", 1)[1]))
            self.write(self.group(heading), text + self.toctree(places))
        self.write("pages.md", "---\norphan: true\n---\n" + self.links("docs/README.md", head))
        headers = self.links("docs/README.md", dict(named)[HEADERS])
        text = ["# API reference\n"]
        names = self.tree / "build/site_reference/names.xml"
        if names.is_file():
            text.append("Every public class and function of Hero, as Doxygen shows them: [classes](hero:reference/annotated.html), "
                        "[namespaces](hero:reference/namespaces.html), [headers](hero:reference/files.html), "
                        "[subjects](hero:reference/modules.html). In the pages, names such as "
                        "`fully_shard` lead there, and the search knows them.\n")
        else:
            text.append("This site was made without it: that takes doxygen, and a tree that has been configured.\n")
        self.write("api.md", "\n".join(text) + "\n" + headers)

    def front(self, tocs):
        """index.md, out of README.md."""
        head, named = sections(self.readme)
        intro = [p for p in head.split("\n\n") if p.strip()]
        body, doors = [], ""
        for _, text in named:
            # the list of what a reader may want stands on top
            found = re.search(r"(?:^- \*\*.*\n?)+", text, re.M)
            if found and not doors:
                doors = found[0]
                text = text.replace(found[0], "")
            body.append(text)
        title, lead, *others = intro
        doors = re.sub(r"^- \*\*(.*?)\*\*: (.*)$", r"- **\1**\n\n  \2", doors, flags=re.M)

        def container(name, inner):  # within a block, links are changed first
            return f"```{{container}} {name}\n{self.links('README.md', inner).strip()}\n```"

        text = "\n\n".join([title, container("lead", lead), container("doors", doors),
                            self.tabs("README.md", self.links("README.md", "\n\n".join(body[:1] + others + body[1:])))])
        self.write("index.md", text + self.toctree([self.group(name) for name, _, _ in tocs] + ["api.md"]))

    def figures(self):
        """figures.md: each figure of docs/figures, small, with a link to the page that shows it."""
        text = ["# Figures\n\nEvery figure of the pages. Choose one to go to where it is explained.\n"]
        image = re.compile(r"^!\[([^\]]*)\]\(((?:\.\./)?figures/[^)]*)\)$", re.M)
        pages = {place: page for page, place in self.pages.items()}
        for _, _, places in self.tocs():
            for place in places:
                page = pages[place]
                shown = (self.tree / page).read_text()
                found = [(alt, os.path.normpath(os.path.join(os.path.dirname(page), path)))
                         for alt, path in image.findall(shown)]
                found = [each for each in found if not each[1].endswith("_site.png")]
                if not found:
                    continue
                title = re.search(r"^# (.*)$", shown, re.M)[1]
                text.append(f"\n## [{title}]({place})\n\n```{{container}} gallery")
                for alt, path in found:
                    text.append(f"[![{alt}]({path.removeprefix('docs/')})]({place})\n")
                text.append("```\n")
        self.write("figures.md", "\n".join(text))

    def exercises(self):
        """exercises.md: the chapters' exercises without their answers."""
        text = ["# Exercises\n\nThe exercises of all chapters. Their answers are folded below them, in "
                "the chapters.\n"]
        pages = {place: page for page, place in self.pages.items()}
        for place in [place for _, _, places in self.tocs() for place in places]:  # in reading order
            page = pages[place]
            if not page.startswith("docs/tutorials/"):
                continue
            whole = (self.tree / page).read_text()
            part = dict(sections(whole)[1]).get("Exercises")
            if part is None:
                continue
            title = re.search(r"^# (.*)$", whole, re.M)[1]
            part = re.sub(r"<details>.*?</details>", "", part, flags=re.S)
            part = re.sub(r"<!-- (snippet|output):.*?-->\n", "", part)
            part = self.links(page, part.split("\n", 1)[1])
            # links and figures are now relative to the top
            part = outside_of_code(part, lambda line: LINK.sub(
                lambda m: m[0] if m[1] is None or re.match("^[a-z]+:|^#", m[1]) else
                "](" + os.path.normpath(os.path.join("tutorials", m[1])) + ")", line))
            part = re.sub(r"\]\(#", f"]({place}#", part)
            text.append(f"\n## [{title}]({place}#exercises)\n\n{part.strip()}\n")
        self.write("exercises.md", "\n".join(text))

    def run(self):
        self.written = set()
        tocs = self.tocs()
        for page, place in self.pages.items():
            if page in ("README.md", "docs/README.md"):
                continue
            text = (self.tree / page).read_text()
            if page.startswith("docs/tutorials/"):
                # the links at a chapter's end are the site's own previous and next
                text = re.sub(r"\n---\n\n[^\n]*\[all pages\][^\n]*\n*$", "\n", text)
            text = self.tabs(page, self.embed(page, self.links(page, text)))
            self.write(place, text)
        parts = "\n".join(f"<!-- interactive: {name} -->\n" for name in self.parts)
        intro = "# Interactive parts\n\nEach of them stands in the chapter that explains it, too.\n\n"
        self.write("interactive.md", self.embed("interactive.md", intro + parts))
        self.figures()
        self.exercises()
        for entry in tocs:
            if any(p.startswith("tutorials/") for p in entry[2]):
                entry[2] += ["exercises.md", "interactive.md", "figures.md"]
        self.lists(tocs)
        self.front(tocs)
        figures = self.tree / "docs/figures"
        for figure in figures.rglob("*.*"):
            to = self.folder / "figures" / figure.relative_to(figures)
            to.parent.mkdir(parents=True, exist_ok=True)
            if not to.exists() or to.read_bytes() != figure.read_bytes():
                shutil.copy(figure, to)
            self.written.add(to)
        lists = ["figures", "interactive", "exercises", "pages"]
        lists += [self.group(name).removesuffix(".md") for name, _, _ in tocs]
        self.write("lists.txt", "\n".join(lists) + "\n")
        self.write("sources.txt", "\n".join(sorted(self.sources)) + "\n")
        for file in self.folder.rglob("*"):  # what an earlier build had and this has not
            if file.is_file() and file not in self.written:
                file.unlink()


if __name__ == "__main__":
    try:
        Stage(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])).run()
    except Fault as fault:
        sys.exit(f"docs/build: {fault}")

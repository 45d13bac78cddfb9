"""check.py TREE SITE: the site needs nothing but itself, and leads everywhere.

- Every link, picture, script and style of a page is a file of the site, and a link with a name leads
  to that name on its page.
- No page loads anything from the network.
- Every page of docs is in the navigation, and no formula was left as it was written.

One line a fault; exit 1 when there is one.
"""
import html.parser
import os
import pathlib
import re
import sys
import urllib.parse

LOADS = {"img": "src", "script": "src", "link": "href", "iframe": "src", "object": "data", "source": "src",
         "video": "src", "audio": "src", "image": "href", "use": "href", "embed": "src"}
ADDRESS = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//|^https?:", re.I)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.twice = set()
        self.ids, self.links, self.loads, self.nav, self.text = set(), [], [], set(), []
        self.inside = 0  # elements of the navigation that are open
        self.skip = 0  # elements whose text is no prose
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        name = attrs.get("id")
        if name:
            if name in self.ids:
                self.twice.add(name)
            self.ids.add(name)
        if tag == "a" and attrs.get("name"):
            self.ids.add(attrs["name"])
        if tag == "div" and (self.inside or "sidebar-tree" in (attrs.get("class") or "")):
            self.inside += 1
        if tag in ("code", "pre", "script", "style", "math", "svg", "title"):
            self.skip += 1
        if tag == "a" and attrs.get("href") is not None:
            self.links.append(attrs["href"])
            if self.inside:
                self.nav.add(attrs["href"])
        if LOADS.get(tag) and attrs.get(LOADS[tag]):
            rel = attrs.get("rel", "")
            if tag != "link" or rel not in ("search", "next", "prev", "index", "author", "top", "canonical"):
                self.loads.append(attrs[LOADS[tag]])
        for address in re.findall(r"url\(\s*['\"]?([^'\")]+)", attrs.get("style") or ""):
            self.loads.append(address)

    def handle_endtag(self, tag):
        if tag == "div" and self.inside:
            self.inside -= 1
        if tag in ("code", "pre", "script", "style", "math", "svg", "title"):
            self.skip -= 1

    def handle_data(self, data):
        if not self.skip:
            self.text.append(data)


def main(tree, site):
    faults = []
    mine = [p for p in site.rglob("*.html") if p.relative_to(site).parts[0] not in ("reference", "_static")]
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in mine}
    ids = {p: page.ids for p, page in pages.items()}

    def named(file):
        if file not in ids:
            ids[file] = set(re.findall(r'(?:id|name)="([^"]*)"', file.read_text(errors="replace")))
        return ids[file]

    def follow(page, address):
        path, _, name = address.partition("#")
        path = urllib.parse.unquote(path.partition("?")[0])
        file = pathlib.Path(os.path.normpath(page.parent / path)) if path else page
        if file.is_dir():
            file /= "index.html"
        if not file.is_file() or site not in file.parents:
            return "no " + address
        if name and file.suffix == ".html" and urllib.parse.unquote(name) not in named(file):
            return "no heading " + address
        return None

    for page, read in pages.items():
        where = page.relative_to(site)
        for address in sorted(set(read.loads)):
            if ADDRESS.match(address):
                faults.append(f"{where}: loads {address} from the network")
            elif not address.startswith(("data:", "#")):
                fault = follow(page, address)
                if fault:
                    faults.append(f"{where}: {fault}")
        for address in sorted(set(read.links)):
            if address in ("", "#") or re.match(r"^[a-z]+:", address, re.I):
                continue
            fault = follow(page, address)
            if fault:
                faults.append(f"{where}: {fault}")
        for name in sorted(read.twice):
            faults.append(f"{where}: has two elements with the id {name}")
        text = " ".join(read.text)
        for mark in re.findall(r"\$\$?\\?[A-Za-z\\][^$\n]{0,60}\$|\]\([^)\s]+\.md[^)]*\)|hero:[a-z#]+", text):
            faults.append(f"{where}: shows {mark}")
    # What styles and scripts ask for. Addresses in comments and of namespaces are no requests.
    for file in list(site.glob("_static/**/*.css")) + list(site.glob("_static/**/*.js")):
        text = file.read_text(encoding="utf-8", errors="replace")
        for address in re.findall(r"url\(\s*['\"]?((?:https?:)?//[^'\")]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)|"
                                  r"(?:fetch|import|importScripts)\(\s*['\"]((?:https?:)?//[^'\"]+)", text):
            faults.append(f"{file.relative_to(site)}: asks for {''.join(address)}")
    front = pages[site / "index.html"]
    for page in sorted((tree / "docs").rglob("*.md")):
        place = str(page.relative_to(tree / "docs")).removesuffix(".md") + ".html"
        if place == "README.html":
            continue  # its sections are the navigation
        if place not in front.nav:
            faults.append(f"docs/{page.relative_to(tree / 'docs')}: not in the navigation")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()))

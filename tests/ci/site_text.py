"""What a reader sees of a page: on GitHub, and in the built site.

Both are compared as sequences of elements and texts without white space.
"""

from __future__ import annotations

from html.parser import HTMLParser

from markdown_it import MarkdownIt

SEEN = ("h1", "h2", "h3", "h4", "ol", "ul", "li", "table", "tr", "td", "th", "pre", "img")
"""Elements that are compared."""
VOID = ("img", "br", "hr", "input", "meta", "link")
HIDDEN = ("headerlink", "filename", "md-source-file", "md-content__button")
"""Classes of elements that only the site has."""


class _Seen(HTMLParser):
    """Collect what is seen of HTML: elements and texts."""

    def __init__(self, article: bool) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.open: list[tuple[str, bool, bool]] = []
        """Each open element: its tag, if it is in the article, and if it is hidden."""
        self.article = article

    def _shown(self) -> bool:
        inside = not self.article or any(inside for _, inside, _ in self.open)
        return inside and not any(hidden for _, _, hidden in self.open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag in SEEN and self._shown():
            self.parts.append(f"\n<{tag}>")
        if tag not in VOID:
            hidden = any(name in HIDDEN for name in classes)
            self.open.append((tag, tag == "article", hidden))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._shown():
            self.parts.append("".join(data.split()))


def _seen(html: str, *, article: bool) -> list[str]:
    parser = _Seen(article)
    parser.feed(html)
    return "".join(parser.parts).split("\n")


def on_github(text: str) -> list[str]:
    """Return what is seen of a page's Markdown on GitHub: each element with its text."""
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    return _seen(markdown.render(text), article=False)


def in_site(html: str) -> list[str]:
    """Return what is seen of a page of the site: each element with its text."""
    return _seen(html, article=True)

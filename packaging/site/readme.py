"""Hooks of MkDocs: the README is the first page, and its tables of pages are the menu."""

import re
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]
GROUP = re.compile(r"^### (.+)$|^\| \[docs/([\w/.-]+\.md)\]", re.MULTILINE)


def menu(readme: str) -> list[dict[str, Any]]:
    """The pages that the README lists, by the headings they stand below."""
    found: list[dict[str, Any]] = [{"Overview": "index.md"}]
    for heading, page in GROUP.findall(readme.partition("\n## Read on\n")[2]):
        if heading:
            found.append({heading: []})
        else:
            next(iter(found[-1].values())).append(page)
    return found


def on_config(config: Any) -> Any:
    config.nav = menu((TOP / "README.md").read_text())
    decisions = sorted(page.name for page in (TOP / "docs/adr").glob("*.md"))
    config.nav.append({"Decisions": [f"adr/{name}" for name in decisions]})
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    readme = (TOP / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=readme.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Let links to other files of the repository go there."""
    above = re.compile(r"\]\(((?:\.\./)+)([\w/.-]+)")
    depth = page.file.src_uri.count("/")

    def there(link: re.Match[str]) -> str:
        outside = link[1].count("../") > depth
        return f"]({config.repo_url}/{link[2]}" if outside else link[0]

    if page.file.src_uri == "index.md":
        for name in ("CONTRIBUTING.md", "adr/"):
            outside = name if name[0].isupper() else f"docs/{name}"
            markdown = markdown.replace(f"]({name})", f"]({config.repo_url}/{outside})")
    return above.sub(there, markdown)

"""Hooks of MkDocs: the README is the first page, and its tables of pages are the menu.

The manual pages of docs/man become pages too; mandoc reads them.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]
MANUAL = sorted((TOP / "docs/man").iterdir())
HEADING = re.compile(r'<h1 class="Sh" id="[^"]*"><a [^>]*>(.*?)</a></h1>', re.DOTALL)
AROUND = re.compile(
    r'<table class="(?:head|foot)">.*?</table>|</?section[^>]*>|</?div[^>]*>', re.DOTALL
)
OTHER = re.compile(r"<b>([\w.-]+)</b>\((\d)\)")
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
    config.nav.append({"Manual pages": [manual_page(source) for source in MANUAL]})
    config.nav.append({"Decisions": [f"adr/{name}" for name in decisions]})
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    readme = (TOP / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=readme.replace("](docs/", "](")))
    for source in MANUAL:
        files.append(File.generated(config, manual_page(source), content=manual(source)))
    return files


def manual_page(source: Path) -> str:
    return f"manual/{source.name}.md"


def manual(source: Path) -> str:
    """The manual page as Markdown with headings; what is below them stays HTML."""
    command = ["mandoc", "-T", "html", "-O", "fragment", source]
    text = AROUND.sub(
        "", subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    text = HEADING.sub(lambda found: f"\n## {' '.join(found[1].split()).capitalize()}\n", text)
    return f"# {source.stem}({source.suffix[1:]})\n" + OTHER.sub(_linked, text)


def _linked(other: re.Match[str]) -> str:
    """Link the manual pages of ours."""
    name = f"{other[1]}.{other[2]}"
    return (
        f'<a href="{name}.html">{other[0]}</a>' if TOP / "docs/man" / name in MANUAL else other[0]
    )


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

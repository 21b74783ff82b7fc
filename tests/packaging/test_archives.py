"""What the built archives would put on a node, and whose it would be."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
SETTINGS = [TOP / "packaging" / name for name in ("maintd.toml", "maintd.users")]
WHITELISTS = ("/etc/ganeti/node-diagnose-commands", "/etc/ganeti/node-repair-commands")


@dataclass(frozen=True)
class Entry:
    mode: str  # as ls shows it
    owner: str
    path: str


def output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def in_debs(debs: Sequence[Path]) -> Iterator[Entry]:
    for deb in debs:
        for line in output("dpkg-deb", "-c", deb).splitlines():
            mode, owner, _, _, _, path = line.split(maxsplit=5)
            yield Entry(mode, owner, path.removeprefix(".").rstrip("/"))


def in_rpms(rpms: Sequence[Path]) -> Iterator[Entry]:
    form = r"[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]"
    for rpm in rpms:
        for line in output("rpm", "-qp", "--queryformat", form, rpm).splitlines():
            yield Entry(*line.split(maxsplit=2))


def faults(entries: Iterator[Entry]) -> list[Entry]:
    """Not root's, writable by others, set-user-id, or neither file, folder nor link."""
    fit = re.compile(r"[-d][r-][w-][x-][r-]-[x-][r-]-[x-]")
    return [e for e in entries if e.owner != "root/root" or not fit.fullmatch(e.mode)]


def whitelists(entries: Iterator[Entry]) -> list[Entry]:
    return sorted((e for e in entries if e.path.startswith(WHITELISTS)), key=lambda e: e.path)


def test_all_in_the_debs_is_roots_and_nobody_else_may_write(debs: Sequence[Path]) -> None:
    assert faults(in_debs(debs)) == []


def test_all_in_the_rpms_is_roots_and_nobody_else_may_write(rpms: Sequence[Path]) -> None:
    assert faults(in_rpms(rpms)) == []


def test_the_whitelists_come_empty(debs: Sequence[Path], rpms: Sequence[Path]) -> None:
    empty = [Entry("drwxr-xr-x", "root/root", path) for path in WHITELISTS]
    assert whitelists(in_debs(debs)) == empty
    assert whitelists(in_rpms(rpms)) == empty


def test_no_script_of_a_package_changes_an_owner(debs: Sequence[Path], tmp_path: Path) -> None:
    for deb in debs:
        output("dpkg-deb", "-e", deb, tmp_path / deb.name)
    scripts = [path.read_text() for path in tmp_path.glob("*/p*")]
    assert scripts
    assert not [text for text in scripts if re.search(r"\b(chown|chmod|chgrp|setfacl)\b", text)]


def test_the_rpms_scripts_change_no_owner(rpms: Sequence[Path]) -> None:
    texts = [output("rpm", "-qp", "--scripts", rpm) for rpm in rpms]
    assert not [text for text in texts if re.search(r"\b(chown|chmod|chgrp|setfacl)\b", text)]


def test_the_settings_are_the_administrators(debs: Sequence[Path], rpms: Sequence[Path]) -> None:
    settings = ["/etc/nodeagent/agent.toml", "/etc/nodeagent/maintd.toml"]
    script = "/etc/needrestart/restart.d/nodeagent-runner.service"
    assert sorted(line for deb in debs for line in conffiles(deb)) == sorted([*settings, script])
    marked = output("rpm", "-qp", "--configfiles", rpms[0], rpms[1]).split()
    assert sorted(marked) == settings


def conffiles(deb: Path) -> list[str]:
    return output("dpkg-deb", "-I", deb, "conffiles").split()


def test_nobody_is_shipped_who_may_log_in(debs: Sequence[Path], rpms: Sequence[Path]) -> None:
    for entries in (in_debs(debs), in_rpms(rpms)):
        paths = [e.path for e in entries if e.path.endswith("maintd.users")]
        assert paths == ["/usr/share/doc/nodeagent-maintd/examples/maintd.users"]


def test_shipped_commands_may_run(debs: Sequence[Path]) -> None:
    commands = [e for e in in_debs(debs) if re.search(r"/lib/nodeagent/node-\w+-commands/", e.path)]
    assert len(commands) >= 10
    assert {e.mode for e in commands} == {"-rwxr-xr-x"}


def test_the_pages_are_there_with_all_that_they_link(
    debs: Sequence[Path], rpms: Sequence[Path]
) -> None:
    pages = "/usr/share/doc/nodeagent"
    linked = set(re.findall(rf"{pages}/\S+?\.md", "".join(map(Path.read_text, SETTINGS))))
    for page in DOCS.glob("*.md"):
        linked |= links(page.read_text())
    for entries in (in_debs(debs), in_rpms(rpms)):
        assert linked - {entry.path for entry in entries} == set()


def links(page: str) -> set[str]:
    """The pages beside it, or below, that one links to, by where the packages have them."""
    found = re.findall(r"\]\(((?!https?:|\.\.)[\w/.-]+)", page)
    return {f"/usr/share/doc/nodeagent/{link}".rstrip("/") for link in found}


def test_the_readme_links_the_pages_that_lie_beside_it(
    debs: Sequence[Path], rpms: Sequence[Path], tmp_path: Path
) -> None:
    """It is the packages' index of documentation: the other pages are linked by those it lists."""
    output("dpkg-deb", "-x", debs[1], tmp_path)
    readme = (tmp_path / "usr/share/doc/nodeagent/README.md").read_text()
    linked = links(readme)
    listed = {Path(link).name for link in linked if link.endswith(".md")}
    pages = {page.name: page.read_text() for page in DOCS.glob("*.md")}
    assert listed <= set(pages)
    beside = {name for name in pages for page in listed if f"]({name}" in pages[page]}
    assert set(pages) - listed - beside == set()
    for entries in (in_debs(debs), in_rpms(rpms)):
        assert linked - {entry.path for entry in entries} == set()


def test_a_package_says_where_it_comes_from(debs: Sequence[Path]) -> None:
    for deb in debs:
        assert output("dpkg-deb", "-f", deb, "Homepage").startswith("https://")
    control = (TOP / "packaging/debian/control").read_text()
    assert re.search(r"^Vcs-Git: https://", control, re.MULTILINE)
    assert re.search(r"^Vcs-Browser: https://", control, re.MULTILINE)

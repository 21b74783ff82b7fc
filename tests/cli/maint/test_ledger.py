"""gnt-maint ledger, against a whole coordinator at a real socket, and a file of Ganeti's."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeagent.cli import exits
from nodeagent.cli.gnt_maint import cli
from nodeagent.cluster.ganeti import filter_rule
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.maintd.daemon import Maintd
from nodeagent.model.event import happened
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.store.carried import Carried, pack
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cluster.ganeti.answering import Luxid, serving
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.world import EVACUATE
from tests.packaging import luxid


@pytest.fixture
def rig() -> Rig:
    return Rig(fleet(), mirrored(("n3", "n4"), ("n4", "n5")))


@pytest.fixture
def live(rig: Rig, tmp_path: Path) -> Iterator[Live]:
    opened = Live(rig, tmp_path)
    opened.api.context._clock = time.monotonic
    opened.tick()
    yield opened
    opened.close()


def run(live: Live, *words: str, code: int = 0) -> str:
    """What it prints, on either output."""
    done = CliRunner().invoke(cli, ["--socket", live.socket, *words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def test_another_clusters_is_refused(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    run(live, "ledger", "export", str(file))
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"rule_uuid": "11111111-2222-5333-8444-555555555555"}))
    run(live, "pause")
    assert "another cluster" in run(live, "ledger", "import", str(file), code=1)


def test_in_doubt_it_is_that_of_this_node(rig: Rig, live: Live, tmp_path: Path) -> None:
    run(live, "pause", "--node", "n6", "--why", "a fan")
    rig.engine.memory.uncertain = Uncertain(Ms(5), Trouble.UNREADABLE, "rubbish")
    file = tmp_path / "ledger.json"
    assert "the ledger of this node may be old" in run(live, "ledger", "export", str(file))
    assert "a fan" in file.read_text()
    assert "a fan" in run(live, "ledger", "show")


def test_a_standby_shows_what_ganeti_has(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Maintd, "standby", "n2 acts")
    said = run(live, "ledger", "show", code=exits.UNAVAILABLE)
    assert "config.data" in said, "which this machine does not have"


def test_it_tells_what_is_kept_where(rig: Rig, live: Live) -> None:
    run(live, "pause", "--node", "n6")
    live.tick(10, 4)
    rig.time += 4
    text = " ".join(run(live, "ledger").split())
    number = rig.store.number
    assert re.search(rf"Ganeti save {number} of n1, \d+ s ago, \d\.\d KiB", text)
    assert f"Rule gnt-filter info {rig.cluster.ledger_rule_uuid()}" in text
    assert f"Here save {number}, " in text
    assert "Behind" not in text
    said = json.loads(run(live, "ledger", "--json"))
    assert (said["number"], said["rule"]["number"], said["rule"]["writer"]) == (
        number,
        number,
        "n1",
    )
    assert "Ledger" not in run(live, "status"), "all is well: nothing is said of it"


def test_a_ledger_that_ganeti_does_not_take_is_told_everywhere(rig: Rig, live: Live) -> None:
    rig.cluster.keeps = lambda _: "the configuration cannot be written"
    done = run(live, "pause", "--node", "n6")
    assert "Paused: node n6" in done
    assert (
        "gnt-maint: kept on this node only, and a new master would not know it: Ganeti has not"
        " taken the ledger (the configuration cannot be written); see gnt-maint ledger\n"
    ) in done
    live.tick(60)
    text = " ".join(run(live, "ledger").split())
    assert "Behind for 60 s: the configuration cannot be written" in text
    assert "Ledger for 60 s not in Ganeti's configuration (the configuration" in " ".join(
        run(live, "status").split()
    )
    told = run(live, "check")
    assert told.startswith("MAINTD WARNING - Ganeti's configuration lacks the newest ledger: the")
    assert " needs_action=1;;;0 " in told


def test_what_is_exported_can_be_imported_while_paused(
    rig: Rig, live: Live, tmp_path: Path
) -> None:
    file = str(tmp_path / "ledger.json")
    run(live, "window", "add", "n5", "--start", "+30h", "--for", "1h")
    assert run(live, "ledger", "export", file) == f"{file}: save {rig.store.number}\n"
    assert Path(file).stat().st_mode & 0o077 == 0, "it has what others may not read"
    run(live, "window", "cancel", "n5")
    assert not rig.ledger.schedule.windows
    refused = run(live, "ledger", "import", file, code=1)
    assert "the cluster is not paused: run gnt-maint pause first" in refused
    run(live, "pause")
    live.tick(10, 4)
    said = run(live, "ledger", "import", file)
    assert "The plans are replaced." in said
    assert rig.ledger.schedule.windows
    assert rig.ledger.away, "what is planned waits for a person"
    assert [hold.name for hold in rig.ledger.holds] == [""], "and the pause stays"
    run(live, "resume", "--ledger")
    shown = json.loads(run(live, "ledger", "show"))
    assert shown["ledger"]["schedule"]["windows"]


def test_nothing_is_imported_beside_running_jobs(rig: Rig, live: Live, tmp_path: Path) -> None:
    file = str(tmp_path / "ledger.json")
    rig.cluster.takes = lambda _: 10_000.0
    rig.agents.says["n3"] = EVACUATE
    live.tick(10, 4)
    run(live, "ledger", "export", file)
    run(live, "pause")
    refused = run(live, "ledger", "import", file, code=1)
    assert "jobs of maintd run, which another ledger would not know: wait for " in refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON at line 1 column 1"),
        ("[]", "is not an object"),
        ('{"v": 2}', "it lacks number"),
        ('{"v": 99}', "it is of a newer nodeagent"),
        ("\udcff", "not UTF-8 at byte 0"),
    ],
)
def test_what_is_no_ledger_is_refused_by_its_place(
    live: Live, tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "odd.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    run(live, "pause")
    said = run(live, "ledger", "import", str(file), code=1)
    assert f"{file}: " in said
    assert why in said
    assert said.count("\n") == 1


def config(folder: Path, text: str | None) -> None:
    """Ganeti's configuration on this node, as far as it is read; its rule has this text."""
    uuid = "00000000-0000-4000-8000-000000000003"
    trail = filter_rule.trail(text or "", Nanoseconds(1))
    rules = {} if text is None else {filter_rule.uuid_of(uuid): {"reason_trail": trail}}
    document = {"version": 3_000_000, "cluster": {"uuid": uuid}, "filters": rules}
    (folder / "config.data").write_text(json.dumps(document))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that only we can write, as settings want it."""
    with safe_folder() as folder:
        yield folder


@pytest.fixture
def away(place: Path) -> list[str]:
    """The options of a gnt-maint on a node where no maintd runs."""
    (place / "maintd.toml").write_text(
        f'[cluster]\nganeti = "{place}"\nluxi = "{place}/luxi"\n[maintd]\nsocket = "{place}/sock"\n'
    )
    return ["--config", str(place / "maintd.toml")]


def test_where_maintd_is_away_ganetis_file_shows_it(away: list[str], place: Path) -> None:
    event = happened(Ms(5), "job-unknown", job="7")
    config(place, pack(Carried(7, "a", Ms(3), Ledger(round=9), (event,))))
    done = CliRunner().invoke(cli, [*away, "ledger", "show"])
    assert done.exit_code == 0, done.output
    told, _, document = done.output.partition("\n")
    assert told == f"gnt-maint: maintd has none to show: this is from {place}/config.data"
    shown = json.loads(document)
    assert (shown["number"], shown["ledger"]["round"]) == (7, 9)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "config.data has no ledger"), ("rubbish", "config.data: it is not a ledger")],
)
def test_or_says_why_not(away: list[str], place: Path, text: str | None, why: str) -> None:
    config(place, text)
    done = CliRunner().invoke(cli, [*away, "ledger", "show"])
    assert done.exit_code in (1, exits.UNAVAILABLE)
    assert why in done.output
    assert "maintd does not answer" in done.output
    assert done.output.count("\n") == 1


def test_it_is_forgotten_only_once_maintd_is_stopped(
    live: Live, away: list[str], place: Path
) -> None:
    class Here(Luxid):
        rules = luxid.Filters()

        def answer(self, method: str, args: list[object]) -> object:
            if method == "QueryClusterInfo":
                return {"uuid": luxid.CLUSTER}
            return self.rules.answer(method, list(args))

    refused = run(live, "ledger", "forget", "--yes", code=1)
    assert "run systemctl stop maintd first" in refused
    with serving(Here(), str(place / "luxi")) as path:
        rule = [filter_rule.uuid_of(luxid.CLUSTER), 0, [], "CONTINUE", []]
        luxi = Luxi(path)
        luxi.ask("ReplaceFilter", rule)

        def forget(*words: str) -> tuple[int, str]:
            done = CliRunner().invoke(cli, [*away, "ledger", "forget", *words])
            return done.exit_code, done.output

        assert forget("--dry-run")[1].startswith("It would remove the ledger")
        code, said = forget()
        assert (code, "add --yes" in said) == (1, True)
        assert Here.rules.rules
        assert forget("--yes") == (0, "Ganeti's configuration has no ledger any more.\n")
        assert not Here.rules.rules
        assert forget("--yes") == (0, "Ganeti's configuration has no ledger.\n")
        luxi.close()

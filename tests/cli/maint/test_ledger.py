"""gnt-maint ledger, against a whole coordinator at a real socket, and a file of Ganeti's."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.cli import exits
from nodeagent.cluster.ganeti import filter_rule
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.maintd.engine.daemon import Maintd
from nodeagent.model.event import happened
from nodeagent.model.keeping import Trouble, Uncertain
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms, Nanoseconds
from nodeagent.store.carried import Carried, pack
from tests.agent.place import safe_folder
from tests.cli.live import Live
from tests.cli.run import gnt_maint, said
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


def test_another_clusters_is_refused(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    said(live, "ledger", "export", str(file))
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"rule_uuid": "11111111-2222-5333-8444-555555555555"}))
    said(live, "pause")
    assert "another cluster" in said(live, "ledger", "import", str(file), code=1)


def test_in_doubt_it_is_that_of_this_node(rig: Rig, live: Live, tmp_path: Path) -> None:
    said(live, "pause", "--node", "n6", "--why", "a fan")
    rig.engine.memory.uncertain = Uncertain(Ms(5), Trouble.UNREADABLE, "rubbish")
    file = tmp_path / "ledger.json"
    assert "the ledger of this node may be old" in said(live, "ledger", "export", str(file))
    assert "a fan" in file.read_text()
    assert "a fan" in said(live, "ledger", "show")


def test_a_standby_shows_what_ganeti_has(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Maintd, "standby", "n2 acts")
    told = said(live, "ledger", "show", code=exits.UNAVAILABLE)
    assert told.count("config.data: ") == 1, "which this machine does not have"


def test_what_is_exported_can_be_imported_while_paused(
    rig: Rig, live: Live, tmp_path: Path
) -> None:
    file = str(tmp_path / "ledger.json")
    said(live, "window", "add", "n5", "--start", "+30h", "--for", "1h")
    assert said(live, "ledger", "export", file) == f"{file}: save {rig.store.number}\n"
    assert Path(file).stat().st_mode & 0o077 == 0, "it has what others may not read"
    said(live, "window", "cancel", "n5")
    assert not rig.ledger.schedule.windows
    refused = said(live, "ledger", "import", file, code=1)
    assert "the cluster is not paused: run gnt-maint pause first" in refused
    said(live, "pause")
    live.tick(10, 4)
    told = said(live, "ledger", "import", file)
    assert "The plans are replaced." in told
    assert rig.ledger.schedule.windows
    assert rig.ledger.away, "what is planned waits for a person"
    assert [hold.name for hold in rig.ledger.holds] == [""], "and the pause stays"
    said(live, "resume", "--ledger")
    shown = json.loads(said(live, "ledger", "show"))
    assert shown["ledger"]["schedule"]["windows"]


def test_nothing_is_imported_beside_running_jobs(rig: Rig, live: Live, tmp_path: Path) -> None:
    file = str(tmp_path / "ledger.json")
    rig.cluster.takes = lambda _: 10_000.0
    rig.agents.says["n3"] = EVACUATE
    live.tick(10, 4)
    said(live, "ledger", "export", file)
    said(live, "pause")
    refused = said(live, "ledger", "import", file, code=1)
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
    said(live, "pause")
    told = said(live, "ledger", "import", str(file), code=1)
    assert f"{file}: " in told
    assert why in told
    assert told.count("\n") == 1


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
    done = gnt_maint(*away, "ledger", "show")
    assert done.code == 0, done
    assert done.err == f"gnt-maint: maintd has none to show: this is from {place}/config.data\n"
    shown = json.loads(done.out)
    assert (shown["number"], shown["ledger"]["round"]) == (7, 9)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "config.data has no ledger"), ("rubbish", "config.data: it is not a ledger")],
)
def test_or_says_why_not(away: list[str], place: Path, text: str | None, why: str) -> None:
    config(place, text)
    done = gnt_maint(*away, "ledger", "show")
    assert done.code in (1, exits.UNAVAILABLE)
    told = done.refused(done.code)
    assert why in told
    assert "maintd does not answer" in told


def test_it_is_forgotten_only_once_maintd_is_stopped(
    live: Live, away: list[str], place: Path
) -> None:
    class Here(Luxid):
        rules = luxid.Filters()

        def answer(self, method: str, args: list[object]) -> object:
            if method == "QueryClusterInfo":
                return {"uuid": luxid.CLUSTER}
            return self.rules.answer(method, list(args))

    refused = said(live, "ledger", "forget", "--yes", code=1)
    assert "run systemctl stop maintd first" in refused
    with serving(Here(), str(place / "luxi")) as path:
        rule = [filter_rule.uuid_of(luxid.CLUSTER), 0, [], "CONTINUE", []]
        luxi = Luxi(path)
        luxi.ask("ReplaceFilter", rule)

        def forget(*words: str) -> tuple[int, str]:
            done = gnt_maint(*away, "ledger", "forget", *words)
            return done.code, done.out + done.err

        assert forget("--dry-run")[1].startswith("It would remove the ledger")
        code, told = forget()
        assert (code, "add --yes" in told) == (1, True)
        assert Here.rules.rules
        assert forget("--yes") == (0, "Ganeti's configuration has no ledger any more.\n")
        assert not Here.rules.rules
        assert forget("--yes") == (0, "Ganeti's configuration has no ledger.\n")
        luxi.close()

"""Who sees what over HTTP: every route for every kind of reader, and no secret by any path."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.engine.settings import ANYONE, LOCAL, USERS, parse
from nodeagent.maintd.http.autorepair import explained
from nodeagent.maintd.http.readers import NOT_SHOWN, Readers, discreet, discreet_events
from nodeagent.maintd.http.status import held_json, holds, incident_json
from nodeagent.maintd.http.view import View
from nodeagent.model.action import Scope
from nodeagent.model.event import Event, happened
from nodeagent.model.event_kinds import SENTENCES
from nodeagent.model.ledger import Hold
from nodeagent.model.queue import Entry, EntryStatus, Queue, Refusal
from nodeagent.model.reason import FencingKind, Held, Kind, Of, Reason, because
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.web.exchange import Response
from tests.maintd.http.planned import SECRETS, ask, made, under
from tests.maintd.http.routes import held_to
from tests.maintd.http.table import CHANGES, GET, NO_WISH, PLANS, READERS, STATUS
from tests.maintd.rig import Rig, fleet, mirrored
from tests.maintd.served import REMOTE, Served, basic
from tests.maintd.world import EVACUATE, NOW

TABLE = {path: row for path, (row, _) in GET.items()}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = made(tmp_path_factory.mktemp("planned"))
    yield served
    served.close()


def target(path: str, served: Served) -> str:
    uuid = NO_WISH if "wishes" in path else served.rig.incident("n3").id
    name = "i1" if "explain" in path else "n4"
    return path.replace("<uuid>", uuid).replace("<name>", name)


def described_as(path: str) -> str:
    return path.replace("<", "{").replace(">", "}")


@pytest.mark.parametrize("kind", READERS)
def test_each_reader_sees_what_is_its_own(planned: Served, kind: str) -> None:
    peer, user = READERS[kind]
    for path, row in TABLE.items():
        status, may = row[kind]
        answer = ask(planned, target(path, planned), user, peer=peer)
        assert answer.status == status, (path, answer.body)
        assert may or not (found := secrets_in(answer)), (path, found)
        assert status != 401 or "WWW-Authenticate" in answer.headers
        held_to(described_as(path), "get", answer)


def test_a_refused_change_tells_no_owner_s_answer_to_who_may_not_read(planned: Served) -> None:
    machines = [{"hostname": "n4"}]
    answer = ask(planned, "/machine/down", "none", machines)
    assert (answer.status, secrets_in(answer)) == (403, [])
    answer = ask(planned, "/machine/down", "reader", machines)
    assert (answer.status, secrets_in(answer)) == (400, ["zebra", "pangolin"])


def test_each_change_takes_the_right_to_make_it(planned: Served) -> None:
    """A dry run takes the same; it is asked for by those who may, as it changes nothing."""
    before = planned.rig.ledger
    for (method, path), (readers, _, body) in CHANGES.items():
        for kind, refused in readers.items():
            peer, user = READERS[kind]
            secure, headers = not peer.startswith("uid:"), basic(user, "plain") if user else {}
            for prefix in ("/dry-run",) if refused is None else ("/dry-run", ""):
                there = prefix + target(path, planned)
                answer = planned.ask(method, there, body, peer=peer, secure=secure, headers=headers)
                row = (kind, method, there, answer.body)
                if not prefix:
                    held_to(described_as(path), method.lower(), answer)
                if refused is None:
                    assert answer.status in (200, 400, 404, 409), row
                else:
                    unread = answer.status == 400 and kind in SOME_CHANGES  # what is no request
                    assert answer.status == refused or unread, row
    assert planned.rig.ledger is before
    assert planned.rig.store.wishes() == ()


SOME_CHANGES = ("operator", "planner", "group")


def secrets_in(answer: Response) -> list[str]:
    return [secret for secret in SECRETS if secret in answer.body.decode()]


TELLING = {
    "/1/held": ["zebra", "pangolin"],
    "/1/history": [*SECRETS],
    "/1/windows": ["zebra", "pangolin"],
    "/status": [*SECRETS],
    "/status/<name>": ["zebra", "pangolin"],
    "/1/offers": ["zebra", "pangolin"],
}


@pytest.mark.parametrize("path", TELLING)
def test_the_secrets_are_told_there_to_those_who_may_read_them(planned: Served, path: str) -> None:
    for kind in ("root", "reader"):
        peer, user = READERS[kind]
        answer = ask(planned, target(path, planned), user, peer=peer)
        assert secrets_in(answer) == TELLING[path]


@pytest.mark.parametrize("read", [LOCAL, ANYONE, USERS])
def test_the_setting_says_who_looks_without_a_password(planned: Served, read: str) -> None:
    served = under(Readers(read), planned)
    peers = ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", REMOTE, "2001:db8::1")
    for path, row in TABLE.items():
        if row not in (STATUS, PLANS):
            continue
        for peer in peers:
            near = peer.startswith(("127.", "::"))
            may = row is STATUS and (read == ANYONE or (read == LOCAL and near))
            answer = ask(served, target(path, planned), None, peer=peer)
            assert answer.status == (200 if may else 401), (path, peer)
            assert not secrets_in(answer)


def test_a_wrong_password_is_no_reason_to_show_less(planned: Served) -> None:
    """It is refused, also where no password is needed: the reader would not see why."""
    answer = ask(planned, "/1/status", "alice:", peer="127.0.0.1")
    assert answer.status == 401


def test_no_password_is_read_from_plain_http(planned: Served) -> None:
    for target_ in ("/1/status", "/1/windows"):
        answer = planned.ask("GET", target_, peer=REMOTE, headers=basic("reader", "plain"))
        assert answer.status == 403
        assert "over TLS" in json.loads(answer.body)["error"]


def test_a_refusal_says_who_may_look_and_how(planned: Served) -> None:
    said = json.loads(ask(planned, "/1/status", None).body)["error"]
    assert said.startswith("maintd shows itself to this machine and users with a role: ")
    said = json.loads(planned.ask("GET", "/1/status", peer=REMOTE).body)["error"]
    assert said.endswith("ask over TLS with a name and a password, or at the admin socket")


def test_the_page_asks_for_a_password_where_it_is_wanted(planned: Served) -> None:
    answer = ask(planned, "/status?sign-in=yes", None, peer="127.0.0.1")
    assert (answer.status, list(answer.headers)) == (401, ["WWW-Authenticate"])


def test_the_values_of_reasons_are_hidden_as_their_texts_are(planned: Served) -> None:
    """An incident of a node in a window waits for it: `waits`, `held` and `reasons` say so."""
    view = planned.api.context.view
    assert view is not None
    (incident,) = view.ledger.incidents
    secret = (
        Held(SECRET, incident.name, incident.id),
        Held(because(Kind.NOT_REPAIRED, "i1", why=SECRET)),
    )
    hidden = discreet(replace(view, held=secret))
    for told in (incident_json(hidden, incident), explained(hidden, view.policy, "i1")):
        assert told is not None
        assert told["reasons"][-1]["reason"].endswith(NOT_SHOWN)
        assert "n9" not in json.dumps(told)
    (machine,) = json.loads(ask(planned, "/1/windows", "reader").body)["windows"][0]["machines"]
    assert [why["reason"] for why in machine["reasons"]] == machine["held"]
    assert {why["kind"] for why in machine["reasons"]} == {"owner-waits"}


SECRET = because(Kind.IN_WINDOW, "n9")
NESTED = because(Kind.CANNOT_MOVE, "i1", why=because(Kind.ALL_TAKEN, whys=(SECRET,), more=""))
SEEN = because(Kind.CANNOT_MOVE, "owners", why=because(Kind.NO_MEMORY))


def view_of(*held: Reason, queue: Queue | None = None) -> View:
    rig = Rig(fleet(), [])
    rig.tick()
    ledger = replace(rig.ledger, queue=queue or Queue())
    seen = Observed(rig.cluster.snapshot(), {})
    return View(rig.now(), ledger, seen, tuple(Held(why, "n3") for why in held))


def test_reasons_are_hidden_by_their_kind_and_not_by_their_words() -> None:
    told = discreet(view_of(SECRET, NESTED, SEEN))
    whole, part, other = map(held_json, told.held)
    assert (whole["kind"], whole["subject"], whole["reason"]) == ("not-shown", None, NOT_SHOWN)
    assert (part["kind"], part["subject"]["name"]) == ("cannot-move", "i1")
    free = because(Kind.ALL_TAKEN, "default", whys=(because(Kind.NOT_SHOWN),))
    assert part["reason"].endswith(str(free))
    assert other == held_json(Held(SEEN, "n3")), "an instance may be called so"


def test_a_stored_sentence_is_hidden_while_it_may_say_why_an_entry_waits() -> None:
    entry = Entry(1, "10.0.0.3", "r640", "unreachable", why="n9 is in a window")
    failed = replace(entry, index=2, status=EntryStatus.FAILED, why="its commands failed")
    refusals = Refusal("window", 1, Ms(0), "n9 is in a window"), Refusal("limit", 1, Ms(0), "two")
    queue = Queue(entries=(entry, failed), refusals=refusals)
    told = discreet(view_of(queue=queue)).ledger.queue
    assert [one.why for one in told.entries] == [NOT_SHOWN, "its commands failed"]
    assert [one.why for one in told.refusals] == [NOT_SHOWN, "two"]


EVENTS: list[tuple[Event, str]] = [
    (happened(NOW, "held", why=str(SEEN), kinds=("cannot-move", "no-memory")), str(SEEN)),
    (happened(NOW, "held", why=str(SECRET), kinds=("cannot-move", "in-window")), NOT_SHOWN),
    (happened(NOW, "held", why=str(SEEN), kinds=("cannot-move", "of-tomorrow")), NOT_SHOWN),
    (happened(NOW, "held", why=str(SEEN)), NOT_SHOWN),  # as an earlier release stored it
    (happened(NOW, "entry-put-off", index="1", address="a", why=str(SECRET)), NOT_SHOWN),
    (happened(NOW, "held", why="paused by bob: leave", kinds=("paused",)), NOT_SHOWN),
    (happened(NOW, "paused", place="n3", who="bob", why="leave"), NOT_SHOWN),
    (happened(NOW, "storm-tripped", why="owners of windows"), "owners of windows"),
]


def test_events_are_hidden_by_the_kinds_of_their_reason() -> None:
    for event, text in EVENTS:
        assert list(map(str, discreet_events([event]))) == [text], (event, text)


NAMING = ("{who}", "{requests", "{canceled")
FOR_A_REASON = {"canceled", "roll-started", "roll-skipped"}  # by whom, or in a person's words


def test_no_event_that_names_who_asked_for_something_is_shown() -> None:
    naming = {kind for kind, text in SENTENCES.items() if any(name in text for name in NAMING)}
    assert {"returning", "requests-dropped", "paused"} <= naming
    for kind in naming | FOR_A_REASON:
        asked = "alice asked to pause: layoffs"
        event = happened(NOW, kind, who="alice (root)", requests=asked, why=asked, canceled="alice")
        assert not any("alice" in str(told) for told in discreet_events([event])), kind


ROLL = {"command": "reboot-node", "nodes": ["n5", "n6"], "why": "for gnu-annual"}
WORK: tuple[tuple[str, str, object], ...] = (
    ("POST", "/1/balance", {"group": "default"}),
    ("POST", "/1/nodes/n2/evacuate", {"why": "for gnu-annual"}),
    ("POST", "/1/nodes/n2/done", None),
    ("POST", "/1/roll", ROLL),
    ("POST", "/1/roll/nodes/n6/skip", None),
    ("POST", "/1/roll/pause", None),
    ("DELETE", "/1/incidents/<uuid>", None),
    ("POST", "/1/roll/cancel", None),
)


def test_who_asked_for_work_is_told_to_nobody_without_a_role(tmp_path: Path) -> None:
    moved = mirrored(("n2", "n4"), ("n4", "n2"), ("n4", "n2"), ("n4", "n2"))
    served = Served(Rig(fleet(), moved), tmp_path)
    served.users.write_text("gnu-annual plain write\n")
    served.rig.agents.says["n3"] = EVACUATE
    served.tick(times=2)
    incident = served.rig.incident("n3").id
    peer, told = READERS["loopback"][0], set()
    for method, path, body in WORK:
        path, headers = path.replace("<uuid>", incident), basic("gnu-annual", "plain")
        served.ask(method, path, body, peer=REMOTE, secure=True, headers=headers, loop=True)
        served.tick(times=3)
        for route in TABLE:
            for node in ("n2", "n3", "n6") if "<name>" in route else ("n3",):
                there = route.replace("<uuid>", incident).replace("<name>", node)
                if b"gnu-annual" in served.ask("GET", there, peer=peer).body:
                    told.add((route, path))
    served.close()
    assert not told


def test_the_setting() -> None:
    assert parse({}).http.read == LOCAL
    assert parse({"http": {"read": "anyone"}}).http.read == ANYONE
    with pytest.raises(ConfigError, match=r"http.read is 'all'; it must be local, anyone or users"):
        parse({"http": {"read": "all"}})
    with pytest.raises(ConfigError, match=r'http.read "users" needs TLS.*http.plain = false'):
        parse({"http": {"read": "users", "plain": True}})


def test_a_pause_is_there_without_who_asked_for_it_and_why() -> None:
    paused = because(Kind.PAUSED, "n3", Of.NODE, what="node", who="bob", why="he leaves", place="")
    view = view_of(paused, because(FencingKind.FENCING_WAITS, "n3", why=paused))
    hold = Hold(Scope.NODE, "n3", "bob", Ms(5), "he leaves")
    told = discreet(replace(view, ledger=replace(view.ledger, holds=(hold,))))
    words = json.dumps([*map(held_json, told.held), *holds(told)])
    assert "bob" not in words
    assert "he leaves" not in words
    assert "paused by an administrator" in words

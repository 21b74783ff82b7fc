"""The users file, in RAPI's format, and who fails too often."""

import grp
import hashlib
from pathlib import Path

import pytest

from nodeagent.errors import ConfigError
from nodeagent.maintd.http.users import REALM, Throttle, Users, parse_users
from nodeagent.model.role import Role
from tests.maintd.served import basic


def ha1(name: str, password: str) -> str:
    return hashlib.md5(f"{name}:{REALM}:{password}".encode()).hexdigest()


ROLES = "observer, operator, planner, admin"
LINES: list[tuple[str, str, bool, bool]] = [
    ("jack secret write", "secret", True, True),
    ("jack secret", "secret", True, False),
    ("jack secret read", "secret", True, False),
    ("jack secret read,write", "secret", True, True),
    ("jack secret read, write ", "secret", True, True),
    ("  jack\tsecret \t write", "secret", True, True),
    ("jack secret written", "secret", True, False),
    ("jack {CLEARTEXT}secret write", "secret", True, True),
    ("jack {cleartext}secret write", "secret", True, True),
    ("jack {CLEARTEXT}{x} write", "{x}", True, True),
    (f"jack {{HA1}}{ha1('jack', 'secret')} write", "secret", True, True),
    (f"jack {{ha1}}{ha1('jack', 'secret').upper()} write", "secret", True, True),
    (f"jack {{HA1}}{ha1('jill', 'secret')} write", "secret", False, True),
    (f"jack {{HA1}}{ha1('jack', 'secret')} write", ha1("jack", "secret"), False, True),
    ("jack secret write", "Secret", False, True),
    ("jack secret write", "", False, True),
    ("jack grüße write", "grüße", True, True),
]


def test_a_line() -> None:
    for line, password, accepted, may_write in LINES:
        user = parse_users(f"# a comment\n\n{line}\n")["jack"]
        assert (user.accepts(password), Role.ADMIN in user.roles) == (accepted, may_write), (
            line,
            password,
        )


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ("read", {Role.OBSERVER}),
        ("observer,owner:db", {Role.OBSERVER}),
        ("operator, planner", {Role.OPERATOR, Role.PLANNER}),
        ("admin", {Role.ADMIN}),
        ("write", {Role.ADMIN}),
        ("Admin,owner:admin", set()),
    ],
)
def test_the_roles_of_a_user(options: str, roles: set[Role]) -> None:
    assert parse_users(f"jack secret {options}")["jack"].roles == roles


def test_a_group_has_roles_and_no_password(file: Path) -> None:
    file.write_text("%nogroup  operator, planner\n%no-such-group admin\njack secret write\n")
    known = Users(str(file))
    number = grp.getgrnam("nogroup").gr_gid
    assert known.roles_of_groups([number, 10**6]) == {Role.OPERATOR, Role.PLANNER}
    assert known.roles_of_groups([10**6]) == set()
    for password in ("", "operator,", "operator, planner"):
        assert known.check(basic("%nogroup", password)["authorization"]) is None


def test_the_last_line_of_a_name_counts() -> None:
    assert parse_users("a one write\na two\n")["a"].accepts("two")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("jack", "line 1: a name and no password"),
        ("\njack {MD5}abc write", "line 2: a password is plain, {CLEARTEXT} or {HA1}"),
        ("jack {HA1 write", "line 1: a password is plain, {CLEARTEXT} or {HA1}"),
        ("jack {CLEARTEXT} write", "line 1: the password is empty"),
        ("jack {ha1}", "line 1: the password is empty"),
        ("%ops", "line 1: a group has no password, and roles of these: " + ROLES),
        ("%ops secret operator", "line 1: a group has no password, and roles of these: " + ROLES),
        ("%ops operator,owner:db", "line 1: a group has no password, and roles of these: " + ROLES),
        ("ja:ck secret", "line 1: no name that could be sent"),
        ("ja\x1bck secret", "line 1: no name that could be sent"),
    ],
)
def test_a_wrong_line_is_named(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_users(text)
    assert str(caught.value) == why


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text("jack secret write\n")
    path.chmod(0o640)
    return path


def check(known: Users, name: str = "jack", password: str = "secret") -> bool:
    return known.check(basic(name, password)["authorization"]) is not None


def test_it_is_read_again_when_it_has_changed(file: Path) -> None:
    known = Users(str(file))
    assert check(known)
    file.write_text("jill other write\n")
    assert not check(known)
    assert check(known, "jill", "other")
    file.unlink()
    assert not check(known, "jill", "other")


@pytest.mark.parametrize("content", [b"jack secret write\nbroken\n", b"jack s\xff write\n"])
def test_a_wrong_file_lets_nobody_in(
    file: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(content)
    known = Users(str(file))
    assert not check(known)
    assert not check(known)
    assert caplog.text.count("users-unusable") == 1, "told once, not at every login"


HEADERS: list[str] = [
    "",
    "Basic",
    "Basic !!!",
    "Basic " + "A" * 5000,
    "Basic /////w==",
    "Digest eA==",
    "Basic Og==",
]


def test_a_header_that_says_nothing_lets_nobody_in(file: Path) -> None:
    for header in HEADERS:
        assert Users(str(file)).check(header) is None, header


HERE = "192.0.2.1"


def test_ten_failures_of_a_user_at_an_address_are_too_many() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for _ in range(10):
        assert throttle.wait(HERE, "jack") == 0
        throttle.failed(HERE, "jack")
    assert throttle.wait(HERE, "jack") == 6
    assert throttle.wait(HERE, "jill") == 0, "another user is heard from there"
    assert throttle.wait("192.0.2.2", "jack") == 0, "and this one from elsewhere"
    now[0] = 6
    assert throttle.wait(HERE, "jack") == 0
    throttle.failed(HERE, "jack")
    assert throttle.wait(HERE, "jack") == 6
    now[0] = 3600
    for _ in range(10):
        throttle.failed(HERE, "jack")
    assert throttle.wait(HERE, "jack") == 6, "an hour gives at most ten"
    assert throttle.failures == 21


def guesses(throttle: Throttle, now: list[float], seconds: int, who: list[tuple[str, str]]) -> int:
    """How many of these guesses, made a hundred times a second in turn, are looked at."""
    looked = 0
    for n in range(seconds * 100):
        peer, user = who[n % len(who)]
        if not throttle.wait(peer, user):
            throttle.failed(peer, user)
            looked += 1
        now[0] += 0.01
    return looked


CROWDS = {
    "many users from one address": [(HERE, f"u{n}") for n in range(2000)],
    "one user from many addresses": [(f"10.0.{n // 256}.{n % 256}", "jack") for n in range(2000)],
    "one user from many IPv6 networks": [(f"2001:db8:0:{n:x}::1", "jack") for n in range(2000)],
    "many users from one IPv6 network": [(f"2001:db8::{n:x}", f"u{n}") for n in range(2000)],
}


@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS.keys())
def test_guessing_in_breadth_is_slowed(crowd: list[tuple[str, str]]) -> None:
    now = [0.0]
    assert guesses(Throttle(lambda: now[0]), now, 60, crowd) <= 60 + 30 + 1


def test_who_has_logged_in_there_before_is_not_locked_out_by_others_guesses() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    throttle.succeeded(HERE, "jack")
    guesses(throttle, now, 10, [(HERE, f"u{n}") for n in range(2000)])
    assert throttle.wait(HERE, "jack") == 0
    assert throttle.wait(HERE, "jill") > 0
    guesses(throttle, now, 9, [(f"10.0.0.{n}", "jack") for n in range(200)])
    assert throttle.wait(HERE, "jack") == 0
    assert throttle.wait("192.0.2.2", "jack") > 0
    for _ in range(10):
        throttle.failed(HERE, "jack")
    assert throttle.wait(HERE, "jack") > 0, "its own failures there count"


def test_what_is_noted_of_peers_and_users_is_bounded() -> None:
    throttle = Throttle(lambda: 0.0)
    for n in range(10_000):
        throttle.failed(f"10.0.{n // 256}.{n % 256}", f"u{n}" + "x" * 700)
        throttle.succeeded(f"10.0.{n // 256}.{n % 256}", f"u{n}")
    stocks = throttle._here, throttle._address, throttle._user, throttle._known
    assert [len(stock) for stock in stocks] == [4096] * 4

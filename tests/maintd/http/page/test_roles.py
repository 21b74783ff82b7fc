"""The page in a browser for users of each role: what it shows, and that it changes nothing."""

from pathlib import Path

import pytest

from nodeagent.maintd.http.readers import Readers
from nodeagent.web.tls import make_certificate, server_tls
from tests import needs
from tests.maintd.http.page.browser import Browser
from tests.maintd.http.page.rigs import at_a_port
from tests.maintd.http.planned import made, under

ROLES = ("observer", "operator", "planner", "admin")
OWNER, NOBODY = "owner:zebra", ""
USERS = "".join(f"u{n} plain {role}\n" for n, role in enumerate((*ROLES, OWNER)))
_CHANGE = """fetch("/1/pause", {method: "POST", headers: {"Content-Type": "application/json"},
    body: '{"scope": "cluster", "name": "", "why": ""}'})
    .then(async (said) => [said.status, await said.text()])"""
_CONTROLS = """[...document.querySelectorAll("form, button")].map(
    (one) => one.tagName === "FORM" ? one.method : one.name || one.textContent)"""


@needs.mark("chromium")
@pytest.mark.parametrize(
    ("role", "read", "sees"),
    [
        *((role, "local", "everything") for role in (ROLES[0], ROLES[-1])),
        (ROLES[0], "users", "everything"),
        (OWNER, "users", "user u4 has no role; this takes observer (http.users)"),
        (OWNER, "local", "the public part"),
        (NOBODY, "local", "the public part"),
    ],
)
def test_the_page_for_a_role(tab: Browser, role: str, read: str, sees: str, tmp_path: Path) -> None:
    """Each server has a port of its own, so the browser knows no password from before."""
    one = made(tmp_path)
    one.users.write_text(USERS)
    one = under(Readers(read), one)
    with at_a_port(one, server_tls(make_certificate())) as url:
        tab.call("Security.enable")
        tab.call("Security.setIgnoreCertificateErrors", ignore=True)
        if role:
            user = f"u{(*ROLES, OWNER).index(role)}:plain"
            tab.open(f"{url.replace('//', f'//{user}@')}?sign-in=yes")
            shown = tab.run("document.body.innerText")
        if "http.users" in sees:
            assert sees in shown
            assert "n3" not in shown
            return
        for path in ("", "/n4"):  # the browser sends the password again by itself
            tab.open(f"{url}{path}")
            tab.renew()
            shown = tab.run("document.body.innerText")
            assert "No answer" not in shown
            secrets = [secret in shown for secret in ("pangolin", "zebra")]
            assert secrets == [sees == "everything"] * 2
            assert ("sign in" in shown) is not secrets[0]
            assert set(tab.run(_CONTROLS)) <= {"get", "Show", "copy"}, "it only looks"
            said = tab.run(_CHANGE)
            assert said == [403, '{"error": "not from a web page"}'], "whatever the role may do"

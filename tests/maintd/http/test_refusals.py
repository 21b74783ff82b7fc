"""What is no request, or none that can be granted: each with its answer in one golden file.

A line of the file is a method, a target and the body as it is sent; RENEW=1 writes what is answered
below it (tests/golden.py).
"""

import json
import re
from pathlib import Path

import pytest

from tests import golden
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.served import Served

ANSWERS = Path(__file__).parent / "answers" / "refusals.txt"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    found = Served(Mender(policy(), heals="nothing"), tmp_path)
    found.tick()
    return found


def test_refusals_tell_why_and_change_nothing(served: Served) -> None:
    requests = re.findall(r"^([A-Z].*)$", ANSWERS.read_text(), re.M)
    assert requests
    before, told = served.rig.ledger, list[str]()
    for line in requests:
        method, target, *body = line.split(" ", 2)
        answer = served.ask(method, target, raw="".join(body).encode())
        assert (answer.kind, 400 <= answer.status < 500) == ("application/json", True), line
        why = json.loads(answer.body)["error"]
        assert "\n" not in why
        told.append(f"{line}\n  {answer.status} {why}\n")
    assert served.rig.store.wishes() == ()
    assert served.rig.ledger is before
    served.close()
    golden.same(ANSWERS, "".join(told))


def test_a_body_is_json_by_its_own_word(served: Served) -> None:
    form = {"content-type": "text/plain"}
    answer = served.ask("POST", "/1/pause", raw=b'{"scope": "cluster"}', headers=form)
    assert answer.status == 415
    served.close()

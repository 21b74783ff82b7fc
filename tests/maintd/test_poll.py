import pytest

from nodeagent.maintd.poll import understand
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report
from tests.maintd.world import EVACUATE, NOW, OK


def seen(
    diagnosis: Diagnosis | None,
    *,
    checked: int | None = NOW,
    unusable: dict[str, str] | None = None,
    firm: bool = True,
) -> Seen:
    text = diagnosis.text if diagnosis else None
    report = Report(
        "c", "", "n1", "e", 1, NOW, text, checked, None, unusable or {}, firm, "n1", "", "0"
    )
    return Seen(report, diagnosis)


@pytest.mark.parametrize(
    ("look", "doubt"),
    [
        pytest.param(Silent("hangs"), "silent: hangs", id="silence is not health"),
        pytest.param(Distrusted("forged"), "distrusted: forged", id="forgery is not silence"),
        pytest.param(seen(None), "stands by no diagnosis yet", id="nothing confirmed"),
        pytest.param(
            seen(OK, unusable={"smart": "exit code 1"}, firm=False),
            "smart: exit code 1",
            id="Ok in doubt",
        ),
        pytest.param(
            seen(EVACUATE, unusable={"smart": "exit code 1"}, firm=False),
            "smart: exit code 1",
            id="a broken script is not a broken node",
        ),
        pytest.param(seen(EVACUATE, checked=NOW - 600_001), "600 s old", id="too old to act upon"),
        pytest.param(seen(EVACUATE, checked=None), "s old", id="never checked"),
    ],
)
def test_doubts(look: Look, doubt: str) -> None:
    diagnoses, doubts = understand({"n1": look}, NOW, 600_000)
    assert diagnoses == {}
    assert doubt in doubts["n1"]


def test_a_genuine_fresh_word_is_taken() -> None:
    assert understand({"n1": seen(EVACUATE)}, NOW, 600_000) == ({"n1": EVACUATE}, {})


def test_one_that_fails_does_not_hide_the_others() -> None:
    look = seen(EVACUATE, unusable={"smart": "exit code 1"}, firm=True)
    assert understand({"n1": look}, NOW, 600_000) == ({"n1": EVACUATE}, {})

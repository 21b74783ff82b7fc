"""confd's signature; the vectors are of confd itself or of OpenSSL."""

import pytest

from nodeagent.protocol.envelope import Key, confd_hmac

KEY = Key(b"0123456789abcdef0123456789abcdef01234567\n")
MASTER = '{"protocol": 1, "type": 3, "query": null, "rsalt": "r-0001"}\n'

VECTORS = {
    "T1": (KEY, "1700000000", MASTER, "a435b7d621dcfda84a98788e7325ec2ec41979db"),
    "T1 without the newline of the key": (
        Key(KEY.whole.strip()),
        "1700000000",
        MASTER,
        "7a2724a7b9a109532793a020b061132758e2d79d",
    ),
    "T4 UTF-8": (
        KEY,
        "1700000000",
        '{"status":"Ok","details":"für"}',
        "62523561d663aa66b50f9c4f47df3616c55dac59",
    ),
    "T7 made by ganeti-confd 3.0.2": (
        Key(b"deadbeef" * 5 + b"\n"),
        "rsalt-1",
        '{"protocol":1,"status":0,"answer":3000000,"serial":0}',
        "4d5fc45995de1d2b05f1a3067906298c0553fc36",
    ),
}


@pytest.mark.parametrize(("key", "salt", "msg", "right"), VECTORS.values(), ids=VECTORS.keys())
def test_vectors(key: Key, salt: str, msg: str, right: str) -> None:
    assert confd_hmac(key, salt, msg) == right

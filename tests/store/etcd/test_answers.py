"""The gateway's answers, as seen of etcd 3.4.23, and what the client makes of each."""

import json

import pytest

from nodeagent.errors import Unavailable
from nodeagent.store.etcd.answers import Verdict, coded, number, raw, reply

SEEN = [
    (400, "etcdserver: request is too large", 3, Verdict.REFUSED),
    (429, "grpc: received message larger than max (2187274 vs. 2097152)", 8, Verdict.REFUSED),
    (400, "etcdserver: too many operations in txn request", 3, Verdict.REFUSED),
    (400, "etcdserver: duplicate key given in txn request", 3, Verdict.REFUSED),
    (404, "etcdserver: requested lease not found", 5, Verdict.REFUSED),
    (400, "etcdserver: mvcc: required revision has been compacted", 11, Verdict.COMPACTED),
    (400, "etcdserver: mvcc: required revision is a future revision", 11, Verdict.REFUSED),
    (429, "etcdserver: mvcc: database space exceeded", 8, Verdict.FULL),
    (429, "etcdserver: too many requests", 8, Verdict.AWAY),
    (503, "etcdserver: request timed out", 14, Verdict.UNKNOWN),
    (500, "context deadline exceeded", 2, Verdict.UNKNOWN),
    (408, "grpc: the client connection is closing", 1, Verdict.UNKNOWN),
    (401, "etcdserver: invalid auth token", 16, Verdict.LOGIN),
    (400, "etcdserver: revision of auth store is old", 3, Verdict.LOGIN),
    (403, "etcdserver: permission denied", 7, Verdict.REFUSED),
]


@pytest.mark.parametrize(("status", "text", "code", "verdict"), SEEN)
def test_each_fault_has_its_verdict(status: int, text: str, code: int, verdict: Verdict) -> None:
    body = json.dumps({"error": text, "message": text, "code": code}).encode()
    found = reply(status, body)
    assert (found.verdict, found.why, found.code) == (verdict, text, code)


def test_a_stream_has_another_shape_of_fault() -> None:
    text = "etcdserver: no leader"
    inner = {"grpc_code": 14, "http_code": 503, "message": text, "http_status": "x"}
    found = reply(503, json.dumps({"error": inner}).encode())
    assert (found.verdict, found.why, found.code) == (Verdict.UNKNOWN, text, 14)


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (404, b"Not Found\n", Verdict.REFUSED),
        (400, b"CommonName of client sending a request against gateway", Verdict.REFUSED),
        (502, b"<html>", Verdict.UNKNOWN),
        (200, b"<html>", Verdict.UNKNOWN),
        (200, b"[1]", Verdict.UNKNOWN),
        (200, b"[" * 100_000, Verdict.UNKNOWN),
        (500, b"{}", Verdict.UNKNOWN),
        (500, b'{"error": 7}', Verdict.UNKNOWN),
        (500, b'{"error": {"message": [], "grpc_code": "14"}}', Verdict.UNKNOWN),
    ],
)
def test_answers_of_others(status: int, body: bytes, verdict: Verdict) -> None:
    assert reply(status, body).verdict is verdict


def test_a_certificate_with_a_common_name_is_explained() -> None:
    assert "make one whose subject has no CN" in reply(400, b"CommonName of client").why


def test_numbers_are_texts_and_zeros_are_absent() -> None:
    found = reply(200, b'{"result": {"TTL": "9", "bad": "x"}}')
    assert found.verdict is Verdict.DONE
    assert (number(found.document, "TTL"), number(found.document, "ID")) == (9, 0)
    assert number(found.document, "bad") == 0
    assert raw({"value": coded(b"\0\xff")}, "value") == b"\0\xff"
    assert raw({}, "value") == b""


@pytest.mark.parametrize("value", ["x", 7, [], None, "ä"])
def test_bytes_that_are_none_are_said_to_be(value: object) -> None:
    with pytest.raises(Unavailable, match="value is not base64"):
        raw({"value": value}, "value")


def test_no_number_is_zero() -> None:
    found = reply(200, b'{"result": {"large": Infinity, "none": NaN}}')
    assert (number(found.document, "large"), number(found.document, "none")) == (0, 0)


def test_a_fault_as_etcd_3_5_writes_it_has_the_same_verdict() -> None:
    """Its gateway leaves out the member `error`."""
    body = {"code": 8, "message": "etcdserver: mvcc: database space exceeded", "details": []}
    found = reply(429, json.dumps(body).encode())
    assert (found.verdict, found.code) == (Verdict.FULL, 8)
    assert "space exceeded" in found.why

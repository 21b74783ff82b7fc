"""Prove who signed an order or a question: a process without rights checks the signature."""

import asyncio
import base64
import json
import os
import sys

from nodeagent import protocol
from nodeagent.errors import MessageError
from nodeagent.protocol.canonical import printable, read
from nodeagent.protocol.order import Proof

_SIGNATURE = os.path.join(os.path.dirname(protocol.__file__), "signature.py")


async def signer(proof: Proof) -> str:
    """Return the digest of the signing certificate, or raise MessageError; asks another process."""
    question = {
        "certificate": proof.certificate,
        "signature": proof.signature,
        "signed": base64.b64encode(proof.signed).decode(),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            _SIGNATURE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise MessageError(f"the signature cannot be checked: {error}") from None
    try:
        async with asyncio.timeout(10):
            out, _ = await process.communicate(json.dumps(question).encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise MessageError("the signature could not be checked in time") from None
    if process.returncode != 0:
        raise MessageError(f"the signature could not be checked: exit code {process.returncode}")
    answer = read(out)
    if not isinstance(answer, dict) or not isinstance(answer.get("digest"), str):
        raise MessageError(f"not signed: {printable(str(answer))}")
    return str(answer["digest"])

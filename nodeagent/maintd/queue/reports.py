"""Machines that sources report broken: each once, contradictory reports rejected. Pure."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.machines import address_of
from nodeagent.maintd.queue.failure_domains import Domains
from nodeagent.maintd.queue.refusals import Refusals
from nodeagent.model.sick import Sick
from nodeagent.model.snapshot import Snapshot


def believed(sick: Mapping[str, tuple[Sick, ...] | str], refusals: Refusals) -> list[Sick]:
    """All reports of believed sources, the most urgent first."""
    reports: list[Sick] = []
    for source, said in sorted(sick.items()):
        if isinstance(said, str):
            refusals.add("source", source, f"{source} is not believed: {said}")
        else:
            reports += said
    return sorted(reports, key=lambda one: -one.priority)


def by_machine(
    reports: Iterable[Sick],
    snapshot: Snapshot,
    known: Container[str],
    domains: Domains,
    refusals: Refusals,
) -> dict[str, Sick]:
    """The reports by machine address: one each, and no report of a machine with contradictions.

    `known` are the addresses of nodes; `domains` records all reports.
    """
    found: dict[str, Sick] = {}
    odd: set[str] = set()
    for one in reports:
        address = _address(one, snapshot, known, refusals)
        if not address:
            continue
        domains.note(address, one)
        other = found.setdefault(address, one)
        if not other.serial:
            found[address] = replace(other, serial=one.serial)
        elif one.serial and other.serial != one.serial and address not in odd:
            odd.add(address)
            why = f"two machines are said to have this address: {other.serial}, {one.serial}"
            refusals.add("contradiction", address, why)
    odd |= _at_two_places(found, refusals)
    return {address: one for address, one in found.items() if address not in odd}


def _at_two_places(found: Mapping[str, Sick], refusals: Refusals) -> set[str]:
    """The addresses of machines reported with several: one belongs to another machine."""
    by_serial: dict[str, list[str]] = {}
    for address, one in found.items():
        if one.serial:
            by_serial.setdefault(one.serial, []).append(address)
    odd: set[str] = set()
    for serial, addresses in by_serial.items():
        if len(addresses) > 1:
            odd |= {*addresses}
            why = f"it is said to have two addresses: {addresses[0]}, {addresses[1]}"
            refusals.add("contradiction", serial, why)
    return odd


def _address(one: Sick, snapshot: Snapshot, known: Container[str], refusals: Refusals) -> str:
    """Its address; "" with a refusal if it has no valid one."""
    why = f"{one.source} knows no address of it"
    if one.address:
        try:
            return address_of(one.address, snapshot, known)
        except MessageError as error:
            why = str(error)
    refusals.add("address", one.serial or one.address or "a machine", why)
    return ""

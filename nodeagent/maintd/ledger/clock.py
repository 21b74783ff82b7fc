"""Rewind the ledger's times after the clock was set back. Pure."""

from dataclasses import replace

from nodeagent.maintd.planning.outcomes import BACK_OFF, TAGS_BACK_OFF
from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms


def rewind(ledger: Ledger, now: Ms) -> Ledger:
    """Move remembered times out of the future after the clock was put back: no wait gets longer."""
    incidents = tuple(
        replace(
            i,
            noted_at=min(i.noted_at, now),
            seen_at=min(i.seen_at, now),
            missed_at=min(i.missed_at, now),
            changed_at=min(i.changed_at, now),
            not_before=min(i.not_before, now + BACK_OFF),
        )
        for i in ledger.incidents
    )
    holds = tuple(
        replace(h, since=now, until=h.until and min(h.until, now + (h.until - h.since)))
        if h.since > now
        else h
        for h in ledger.holds
    )
    begun = tuple(replace(b, at=min(b.at, now)) for b in ledger.begun)
    intents = tuple(
        replace(i, promised=min(i.promised, now), ended=min(i.ended, now)) for i in ledger.intents
    )
    return replace(
        ledger,
        incidents=incidents,
        holds=holds,
        begun=begun,
        intents=intents,
        calm=min(ledger.calm, now),
        tags_after=min(ledger.tags_after, now + TAGS_BACK_OFF),
        repairs_after=min(ledger.repairs_after, now + BACK_OFF),
        ran=tuple(replace(r, at=min(r.at, now), ended=min(r.ended, now)) for r in ledger.ran),
        shifted=tuple(
            replace(s, at=min(s.at, now), ended=min(s.ended, now)) for s in ledger.shifted
        ),
        lopsided=tuple(
            replace(one, since=min(one.since, now), seen=min(one.seen, now))
            for one in ledger.lopsided
        ),
        balance_after=min(ledger.balance_after, now + BACK_OFF),
    )

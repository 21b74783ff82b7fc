"""Kinds of reasons about disruption budgets, with their sentences and commands. Pure.

`reason_kinds` says how they are written.
"""

from nodeagent.model.reason_subject import AnyKind, Of, kind


class BudgetKind(AnyKind):
    """Kinds of reasons about budgets, and about their tags."""

    BUDGET_SPENT = kind(
        "budget",
        Of.INSTANCE,
        "budget {budget} allows {most} disrupted at once; disrupted now: {whom:;}; {it} waits until"
        " this ends: {help}",
        command="{helps}",
    )
    BUDGET_DOWN = kind(
        "budget",
        Of.INSTANCE,
        "budget {budget} allows {most} disrupted at once; disrupted now: {whom:;}; no job of maintd"
        " ends this: run {help}",
        command="{helps}",
    )
    BUDGET_NEVER = kind(
        "budget",
        Of.INSTANCE,
        "budget {budget} allows no disruption: move {it} yourself, or run {help}",
        command="gnt-instance remove-tags {holder} {tag}",
    )
    BUDGET_UNREADABLE = kind(
        "budget",
        Of.INSTANCE,
        "its tag {tag} is wrong: {form}: run {help}",
        command="gnt-instance remove-tags {it} {tag}",
    )
    BUDGET_DIFFERS = kind(
        "setting",
        Of.INSTANCE,
        "the tags of budget {budget} differ ({tags}): the strictest counts, {counts}: run {help}",
        command="gnt-instance remove-tags {it} {tag}",
    )
    MORE_BUDGET_TAGS = kind(
        "setting",
        Of.CLUSTER,
        "{count} more tags of instances are wrong: run {help}",
        command="gnt-cluster search-tags '(?i)^maintd:'",
    )
    BUDGET_EXCEEDED = kind(
        "budget",
        Of.CLUSTER,
        "budget {budget} allows {most} disrupted at once; disrupted now: {whom:;}; maintd plans no"
        " more: run {help}",
        command="{helps}",
    )
    BUDGET_OVERRIDDEN = kind(
        "budget",
        Of.INSTANCE,
        "instance {it} fails over beyond its budget, as {node} reports evacuate-failover: {why}",
    )

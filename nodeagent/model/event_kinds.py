"""Kinds of events, with the sentence for each. Pure.

`{action}` is the planned or finished action, in words; `sentence` says how details are written.

| kind            | means                                                                     |
|-----------------|---------------------------------------------------------------------------|
| `noted`         | a diagnosis became an incident                                            |
| `recovered`     | maintd rebuilt an incident from Ganeti's tags and jobs                    |
| `known-again`   | the node reports the diagnosis of a rebuilt incident again                |
| `begun`         | the incident is pending: work on it goes on                               |
| `promised`      | maintd planned an action; the plan is on disk                             |
| `submitted`     | a planned action became a job (of the cluster, or an agent's order)       |
| `job-done`      | a job succeeded                                                           |
| `job-failed`    | a job failed, and why                                                     |
| `job-later`     | a job did nothing; maintd tries it again                                  |
| `job-lost`      | a job is no longer in the queue, and maintd no longer waits for it        |
| `dropped`       | a plan is void, and why                                                   |
| `completed`     | the incident's repair is over and its ready tag set                       |
| `failed`        | the incident failed, and why                                              |
| `canceled`      | maintd does nothing more for the incident, and why                        |
| `superseded`    | another incident of the node replaces it                                  |
| `forgotten`     | the incident is closed, and why                                           |
| `paused`        | somebody paused the cluster, a group, a node or an incident               |
| `resumed`       | the pause ended                                                           |
| `returning`     | somebody reports a node repaired, and says in which state to leave it     |
| `returned`      | the node is in that state, and its incidents' tags are removed            |
| `return-over`   | the return stopped: somebody or something else changed the node           |
| `halted`        | a failed job stopped the balancing of a group, and which job              |
| `released`      | somebody closed the halt: its tag was removed                             |
| `storm-tripped` | the storm brake tripped, and why                                          |
| `storm-reset`   | the storm brake was reset                                                 |
| `wish-granted`  | maintd accepted an administrator's request                                |
| `wish-refused`  | maintd refused an administrator's request, and why                        |
| `answers-refused` | maintd refused a user's answers to owners' offers: how many, and why    |
| `occurrence-planned` | a time of a weekly series became a window                            |
| `occurrence-over` | the occurrence is over, or was canceled                                 |
| `roll-started`  | a rolling maintenance of these nodes began                                |
| `roll-leaving`  | a node's turn began: it leaves service                                    |
| `roll-running`  | the node is empty, and its agent runs the command                         |
| `roll-returning` | the command is over: the node owes its proof, and returns                |
| `roll-done`     | the node has returned                                                     |
| `roll-failed`   | a step at the node failed, and why                                        |
| `roll-skipped`  | the node is left out, and why                                             |
| `roll-waiting`  | the node went back before its command: it waits for its turn again        |
| `roll-stopped`  | the roll stopped: which node, and why                                     |
| `roll-over`     | the roll is over, or was canceled                                         |
| `entry-queued`  | the repair queue has a new entry                                          |
| `entry-processing` | the entry's repair started, or its success command runs                |
| `entry-put-off` | maintd cannot evacuate the entry's node now, and why                      |
| `entry-succeeded` | the entry's machine is healthy                                          |
| `entry-failed`  | the machine was not repaired, and why                                     |
| `entry-deleted` | maintd deleted the finished entry                                         |
| `offered`       | maintd asks an owner to give up its instances on a node                   |
| `accepted`      | an owner agrees that its instances leave the node                         |
| `declined`      | an owner does not agree, and why                                          |
| `rescinded`     | an owner need not answer any more                                         |
| `suspected-dead` | the evidence says that a node is dead: maintd starts to fence it          |
| `fenced`        | a dead node's power is proven off, and it is offline                      |
| `revived`       | a dead node answers again after its power was off and on                  |
| `came-back`     | a node that was being fenced, or was fenced, is back                      |
| `instances-restarted` | instances of a fenced node run elsewhere                            |
| `instances-down` | instances of a fenced node stay down                                     |
| `fencing-failed` | a node could not be powered off, or could not be proven off, and why     |
| `fencing-braked` | a brake keeps maintd from fencing a dead node, and why                   |
| `drill-started` | maintd powers an empty node off and on, as a person asked                 |
| `drill-passed`  | its power was proven off, and its agent answers again                     |
| `drill-failed`  | the drill failed, and why                                                 |
| `agent-silent`  | agents do not answer for the second round in a row                        |
| `agent-distrusted` | agents' answers are not trusted for the second round in a row          |
| `agent-back`    | agents reported so answer again                                           |
| `ledger-taken`  | maintd began with the ledger in Ganeti's configuration: whose, of which time |
| `rule-missing`  | Ganeti's configuration had no ledger: that of this node counts            |
| `rule-removed`  | somebody removed the rule that keeps the ledger: it is written again      |
| `rule-changed`  | somebody changed that rule: it is written again                           |
| `job-unknown`   | Ganeti does not know the ledger's newest job: plans wait for a person |
| `requests-dropped` | requests that never left this node, which the newest ledger does not have |
| `held`          | requested work is blocked for a new reason                                |
"""

from collections.abc import Mapping

_FINDING = "{need}: {said}"
_ACTION = "{action}"
_ENDED = "{why}{status:+it is %}"
_ENTRY = "queue entry {index}: {address} ({type}) {operation}{why:+: %}"
_OCCURRENCE = "{series} of {day}: {machines}"
_ANSWER = "owner {owner} by {who}{why:+: %}"
_MANY = "{agents}{more:+ and % more}"
_LOOK = "{count:+; run gnt-maint nodes}"

SENTENCES: Mapping[str, str] = {
    "noted": _FINDING,
    "recovered": "rebuilt from Ganeti: it is {status}",
    "known-again": _FINDING,
    "begun": "{need}",
    "promised": _ACTION,
    "submitted": _ACTION,
    "job-done": _ACTION,
    "job-failed": "{action}{why:+: %}",
    "job-later": "{action}: {why}{asks:+it asks to be tried again later}",
    "job-lost": "{action}: the job is no longer in Ganeti's queue",
    "dropped": "{action}: {why}{after:+the job it follows did not succeed}"
    "{unawaited:+maintd no longer waits for it}",
    "completed": "{why}{tag:+% is set}",
    "failed": _ENDED,
    "canceled": _ENDED,
    "superseded": "superseded by {heir}",
    "forgotten": "{left:+its node has left the cluster}{tag:+% was removed}"
    "{well:+, and it is no longer observed}{unseen:+it is no longer observed}",
    "paused": "{place} paused by {who}{until:+ until %}{why:+: %}",
    "resumed": "{place} resumed",
    "returning": "{who}: to be left {state}",
    "returned": "it is {state}",
    "return-over": "it is {state}",
    "halted": "balancing: {why}",
    "released": "balancing: {tag} was removed",
    "storm-tripped": "{why}",
    "storm-reset": "it had tripped: {why}",
    "wish-granted": "{who} asked to {request}{command:+, by gnt-maint %}",
    "wish-refused": "{who:+% asked to }{request}{command:+, by gnt-maint %}{request:+: }{why}",
    "answers-refused": "maintd refused {answers} of user {user} to offers; the last: {why}",
    "occurrence-planned": _OCCURRENCE,
    "occurrence-over": _OCCURRENCE,
    "roll-started": "{command} on {nodes}{why:+ (%)}",
    "roll-leaving": "{command}: its turn begins",
    "roll-running": "{command}: it is empty, and runs it",
    "roll-returning": "{command} is over",
    "roll-done": "{command}: it is back",
    "roll-failed": "{command}: {why}",
    "roll-skipped": "{command}: {why}",
    "roll-waiting": "{command}: it went back, and waits for its turn",
    "roll-stopped": "{command}: {why}",
    "roll-over": "{command}: {done} of {nodes} nodes are done{canceled:+; canceled by %}",
    "entry-queued": _ENTRY,
    "entry-processing": _ENTRY,
    "entry-put-off": _ENTRY,
    "entry-succeeded": _ENTRY,
    "entry-failed": _ENTRY,
    "entry-deleted": _ENTRY,
    "offered": "owner {owner}: {instances}",
    "accepted": _ANSWER,
    "declined": _ANSWER,
    "rescinded": "owner {owner}",
    "suspected-dead": "maintd starts to fence it: {why}",
    "fenced": "it is offline, and its power is {person:+said to be cut}{proven:+proven off}",
    "revived": "its agent answers again after its power was off and on",
    "came-back": "{answers:+it answers again: }it is {state}",
    "instances-restarted": "they run elsewhere: {instances}",
    "instances-down": "they stay down: {instances}; gnt-maint why says why",
    "fencing-failed": "{stage}: {why}",
    "fencing-braked": "{why}",
    "drill-started": "maintd powers it off and on",
    "drill-passed": "its power was proven off, and its agent answers again",
    "drill-failed": "{why}",
    "agent-silent": "{why:+its agent does not answer: %}{count:+% agents do not answer: }"
    + _MANY
    + _LOOK,
    "agent-distrusted": "{why:+its agent's answer is not to be trusted: %}"
    "{count:+% agents are distrusted: }" + _MANY + _LOOK,
    "agent-back": "{alone:+its agent answers again}{count:+% agents answer again: }" + _MANY,
    "ledger-taken": "maintd goes on with the ledger in Ganeti's configuration, which the maintd of"
    " {whose} saved at {saved}",
    "rule-missing": "Ganeti's configuration had no ledger: maintd goes on with that of this node,"
    " and writes it there",
    "rule-removed": "somebody has removed the job filter rule that keeps the ledger: maintd writes"
    " it again; do not delete it, gnt-maint ledger tells what it is",
    "rule-changed": "somebody has changed the job filter rule that keeps the ledger: maintd writes"
    " its own ledger there again; gnt-maint ledger tells what it is",
    "job-unknown": "Ganeti does not know job {job}, the newest one of the ledger: it was restored,"
    " or has lost its queue; check the plans, then run gnt-maint resume --ledger",
    "requests-dropped": "{count} requests were kept on this node only, and are not in force:"
    " {requests:;}: ask for them again if they still hold",
    "held": "{why}",
}

_WORDS = {
    "noted": "detected",
    "begun": "started",
    "promised": "planned",
    "held": "blocked",
    "forgotten": "closed",
    "wish-granted": "request accepted",
    "wish-refused": "request refused",
    "job-unknown": "newest job unknown",
    "requests-dropped": "requests not in force",
    "agent-silent": "agent not answering",
    "agent-distrusted": "agent not trusted",
}


def word_of(kind: str) -> str:
    """Return a kind in the words of the glossary, for people."""
    return _WORDS.get(kind, kind.replace("-", " "))

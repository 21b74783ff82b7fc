"""Kinds of events, with the sentence that each is told in. Pure.

`{action}` is what was planned or done, in words; `sentence` says how details are written.

| kind            | means                                                                     |
|-----------------|---------------------------------------------------------------------------|
| `noted`         | a diagnosis has become an incident                                        |
| `recovered`     | an incident was rebuilt from what Ganeti knows of it                      |
| `known-again`   | its node says again what a rebuilt incident is about                      |
| `begun`         | the incident is pending: work on it goes on                               |
| `promised`      | an action was decided and is on disk                                      |
| `submitted`     | a promised action has become a job (of the cluster, or an agent's order)  |
| `job-done`      | a job has succeeded                                                       |
| `job-failed`    | a job has failed, and why                                                 |
| `job-later`     | a job did nothing and is to be tried again                                |
| `job-lost`      | a job is no longer in the queue, and maintd no longer waits for it        |
| `dropped`       | a promise is void, and why                                                |
| `completed`     | the incident's repair is over and its ready tag set                       |
| `failed`        | the incident has failed, and why                                          |
| `canceled`      | nothing more is done for the incident, and why                            |
| `superseded`    | another incident of the node goes on in its stead                         |
| `forgotten`     | the incident is over and no longer remembered, and why                    |
| `paused`        | a hold was laid on the cluster, a group, a node or an incident            |
| `resumed`       | a hold was taken back                                                     |
| `returning`     | somebody says that a node is repaired, and how it is to be left           |
| `returned`      | it is so, and the tags of its incidents are off                           |
| `return-over`   | it is not, for somebody or something else has changed it                  |
| `halted`        | a failed job ends the balancing of a group, and which                     |
| `released`      | that was acknowledged: its tag was removed                                |
| `storm-tripped` | the storm brake has tripped, and why                                      |
| `storm-reset`   | the storm brake was reset                                                 |
| `wish-granted`  | what an administrator asked for was granted                               |
| `wish-refused`  | what an administrator asked for was refused, and why                      |
| `answers-refused` | answers of a user to owners' offers were refused: how many, and why     |
| `occurrence-planned` | a time of a weekly series has become a window                       |
| `occurrence-over` | it is over, or was canceled                                            |
| `entry-queued`  | an entry of the repair queue was added                                    |
| `entry-processing` | its repair has begun, or its success command runs                      |
| `entry-put-off` | its node could not be emptied now, and why                                |
| `entry-succeeded` | its machine is healthy                                                  |
| `entry-failed`  | it was not repaired, and why                                              |
| `entry-deleted` | it is over and no longer remembered                                       |
| `offered`       | an owner is asked to give up what it has on a node                        |
| `accepted`      | an owner is content that its instances leave the node                     |
| `declined`      | an owner is not, and why                                                  |
| `rescinded`     | an owner need not answer any more                                         |
| `agent-silent`  | an agent, or several, do not answer for the second round in a row         |
| `agent-distrusted` | the same of answers that are not to be trusted                         |
| `agent-back`    | an agent, or several, of which that was told answer again                 |
| `held`          | something is wanted and not done, for a reason it was not held for before |
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
    "agent-silent": "{why:+its agent does not answer: %}{count:+% agents do not answer: }"
    + _MANY
    + _LOOK,
    "agent-distrusted": "{why:+its agent's answer is not to be trusted: %}"
    "{count:+% agents are distrusted: }" + _MANY + _LOOK,
    "agent-back": "{alone:+its agent answers again}{count:+% agents answer again: }" + _MANY,
    "held": "{why}",
}

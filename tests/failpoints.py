"""The places where maintd's `failpoint` may end or break it, in the order of a round."""

NAMES = (
    "adopted",  # jobs found by their reasons, not yet saved
    "observed",  # all is observed, nothing decided
    "decided",  # decided, not yet saved
    "saved",  # the decision is on disk, including its removals
    "intended",  # intents on disk, which Ganeti's configuration does not have yet
    "promised",  # it has them, nothing submitted
    "submitted",  # accepted by the cluster, its answer not yet saved
    "remembered",  # job ids on disk
    "ordered",  # its agent has the order, which is not yet saved
)

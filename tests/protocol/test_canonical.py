"""What the strict reader says of a document it refuses: the place of the fault, in one line."""

import pytest

from nodeagent.errors import MessageError
from nodeagent.protocol.canonical import read_text

DEEP = "a" * 40

FAULTS = [
    ('{"a":1,"a":2}', 'at $: key "a" stands twice in one object'),
    ('{"details":{"x":[0,{"a":1,"b":2,"a":1}]}}', 'at $.details.x[1]: key "a" stands twice'),
    ('{"details":{"\\u001b":{"a":1,"a":2}}}', r"at $.details.\u001b: key"),
    ('{"details":{"t":NaN}}', "at $.details.t: NaN is not a JSON number"),
    ('{"a":[1e5,1e999]}', "at $.a[1]: number 1e999 is too large"),
    ('{"a":' + "9" * 310 + "}", "at $.a: integer of 310 digits; at most 309 are read"),
    ('{"a":"\\ud800"}', "at $.a: half of a surrogate pair"),
    ('{"a":[{"\\u0000":1}]}', "at $.a[0] (a key): NUL character"),
    ("NaN", "at $: NaN is not a JSON number"),
    ('{"a":NaN,', "not JSON at line 1 column 10"),
    ('{"a":NaN,"b":{"c":1,"c":2}}', "at $.a: NaN"),
    (f'{{"{DEEP}":' * 30 + "NaN" + "}" * 30, "aaa: NaN is not a JSON number"),
]


@pytest.mark.parametrize(("text", "said"), FAULTS)
def test_a_fault_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(MessageError) as caught:
        read_text(text)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300

"""The text that a person approves."""

from __future__ import annotations

from dedup_clone.publish.approval import reason_as_typed


def test_a_reason_is_shown_as_it_was_typed_and_is_no_markup() -> None:
    text = reason_as_typed("see [the plan](https://example.org)\n| `x_1` **now** <b>")
    assert text == (r"Reason given: see \[the plan\](https://example.org) \| \`x\_1\` \*\*now\*\* \<b\>")

"""Every error of the code has an entry in docs/runbook.md, and every entry is an error."""

from __future__ import annotations

import re

from tests.docs.raised_messages import REPOSITORY, raised_messages

SECTION = (
    (REPOSITORY / "docs" / "runbook.md").read_text(encoding="utf-8").split("\n## Errors\n", 1)[1].split("\n## ", 1)[0]
)
GROUPS = re.split(r"^### .*$", SECTION, flags=re.MULTILINE)[1:]
ENTRIES = [
    " ".join(entry.split()) for group in GROUPS for entry in re.findall(r"`([^`]+)`", group.split("**Means**", 1)[0])
]


def test_messages_of_several_parts_of_the_code_are_found() -> None:
    texts = {message.text for message in raised_messages()}
    assert "Every delivery was refused; target is unchanged:\n  …" in texts  # a local name in the text
    assert any(text.startswith("DEDUP_CLONE_PROFILE is […]") for text in texts)  # a constant of the module
    assert any(text.startswith("The existing table cannot become feed […]") for text in texts)  # made by a function
    assert any(text.startswith("The plan changed a row") for text in texts)  # raised by Spark
    assert any(text.startswith("status […]") for text in texts)  # composed by the class of the error


def test_each_message_has_an_entry() -> None:
    unlisted = [f"{m.where}: {m.text}" for m in raised_messages() if not m.text.startswith(tuple(ENTRIES))]
    assert not unlisted, "begin an entry of docs/runbook.md, Errors, with the first words of:\n" + "\n".join(unlisted)


def test_each_entry_is_the_beginning_of_a_message() -> None:
    texts = [message.text for message in raised_messages()]
    assert [entry for entry in ENTRIES if not any(text.startswith(entry) for text in texts)] == []


def test_nothing_advises_to_delete_or_to_roll_back_current() -> None:
    advice = re.compile(r"(delet|remov|restor|roll(ed)? back|earlier version|storage (cp|rm))[^.:;,]*\bCURRENT\b", re.I)
    runbook = (REPOSITORY / "docs" / "runbook.md").read_text(encoding="utf-8")
    texts = [*(message.text for message in raised_messages()), " ".join(runbook.split())]
    found = [match[0] for text in texts for match in advice.finditer(text)]
    assert [words for words in found if "Never" not in words and "whose earlier" not in words] == []


def test_nothing_advises_to_clear_a_later_task_of_a_failed_run() -> None:
    """Its attempt has ended, so the task would fail again. (A task that still runs may be cleared.)"""
    advice = re.compile(r"clear (?:the (?:failed )?task|(?:the run|it) from (?!its first)\S+)", re.I)
    texts = {"runbook.md": SECTION}
    for path in sorted((REPOSITORY / "plugins" / "dedup_clone").rglob("*.py")):
        if path.parent.name != "retirement":  # its task goes on where it ended
            texts[path.name] = re.sub(r'"\s+f?"', "", path.read_text(encoding="utf-8"))
    found = {name: match[0] for name, text in texts.items() if (match := advice.search(text))}
    assert found == {}


def test_each_entry_is_listed_once_and_has_words() -> None:
    assert sorted({entry for entry in ENTRIES if ENTRIES.count(entry) > 1}) == []
    assert [entry for entry in ENTRIES if not re.search(r"[A-Za-z]{4}", entry)] == []

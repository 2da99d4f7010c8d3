"""Which words are the person's, in what agents send."""

from __future__ import annotations

import pytest

from tests.support.model.conversation import Conversation, Message, Tool, message


def conversation(*messages: Message) -> Conversation:
    return Conversation("chat", "m", None, False, messages, (Tool("Bash", {}),))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("<system-reminder>do\nnot</system-reminder>hello", "hello"),
        ("hi <system-reminder>a</system-reminder><system-reminder>b</system-reminder>", "hi"),
        ("<environment_context><cwd>x</cwd></environment_context>", None),
        ("<user_query>\n[[say:x]]\n</user_query>", "[[say:x]]"),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>"),
    ],
)
def test_what_an_agent_injects_is_not_what_a_person_wrote(text: str, own: str | None) -> None:
    assert [given.texts for given in message("user", [text])] == ([(own,)] if own else [])


def test_the_script_is_the_last_message_of_a_person() -> None:
    told = conversation(
        Message("user", ("first",)),
        Message("assistant", ("ok",)),
        Message("user", ("second",)),
        Message("tool", ("r",)),
    )
    assert told.script == "second"
    assert told.results == ("r",)


def test_of_several_blocks_the_one_with_directives_is_the_script() -> None:
    told = conversation(Message("user", ("a note", "[[say:x]]", "the image is at /tmp/a.png"), images=1))
    assert told.script == "[[say:x]]"
    assert told.images == 1
    assert conversation(Message("user", ("one", "two"))).script == "two"


def test_new_drops_what_was_glued_before() -> None:
    told = conversation(Message("user", ("[[error:400]]\n[[new]][[say:x]]",)))
    assert told.script == "[[say:x]]"


def test_nobody_wrote_anything() -> None:
    assert conversation().script == ""
    assert conversation().results == ()
    assert conversation().images == 0

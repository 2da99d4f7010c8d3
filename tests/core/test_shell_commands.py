"""No command of a shell script is ever left out of what is shown of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.core.shell_commands import find_commands


def names(script: str) -> list[str]:
    return [command.name for command in find_commands(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("for i in 1; do rm -rf X; done", ["rm"]),
        ("A=1 rm q", ["rm"]),
        ("sudo rm x && git push", ["sudo", "rm", "git"]),
        ("if [ -f x ]; then rm x; elif a; then b; fi", ["[", "rm", "a", "b"]),
        ("ls | xargs -n 1 rm", ["ls", "xargs", "rm"]),
        ("(rm x) & { mv y z; }", ["rm", "mv"]),
        ('echo "$(rm x)" `mv y z`', ["echo", "rm", "mv"]),
        ("diff <(rm x) >(mv y)", ["diff", "rm", "mv"]),
        ("cat <<EOF\n$(rm x)\nEOF\n", ["cat", "rm"]),
        ("bash <<'EOF'\nrm x\nEOF\n", ["bash", "rm"]),
        ("sh <<< 'rm x'", ["sh", "rm"]),
        ("env X=1 rm x", ["env", "rm"]),
        ("env -u HOME nice -n 5 timeout 3 rm x", ["env", "nice", "timeout", "rm"]),
        ("bash -c 'rm x; bash -lc \"mv y z\"'", ["bash", "rm", "bash", "mv"]),
        ("eval rm x", ["eval", "rm"]),
        ("trap 'rm x' EXIT", ["trap", "rm"]),
        ("find . -name a -exec rm {} \\;", ["find", "rm"]),
        ("sudo >log 2>&1 rm x", ["sudo", "rm"]),
        ("case $1 in a) rm x;; *) mv y;; esac", ["rm", "mv"]),
        ("f() { rm x; }; f", ["rm", "f"]),
        ("'r'm x; \\mv y; $CMD z", ["rm", "mv", "$CMD z"]),
        ("export A=$(rm x)", ["export", "rm"]),
        ("[[ -f x ]] && rm x", ["rm"]),
        ("echo a # rm x", ["echo"]),
        (" \n", []),
    ],
)
def test_the_commands_of_a_compound_command(script: str, expected: list[str]) -> None:
    assert names(script) == expected


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("if true; then rm x", "if true; then rm x"),
        ("sudo --unknown root rm x", "sudo --unknown root rm x"),
        ("sudo $OPTIONS rm x", "sudo $OPTIONS rm x"),
        ('bash -c "rm $X"', '"rm $X"'),
        ("echo 'rm x' | sh", "echo 'rm x' | sh"),
        ("cat <<EOF | bash\nrm x\nEOF\n", "cat <<EOF | bash\nrm x\nEOF"),
        ("su -c 'rm x'", "su -c 'rm x'"),
        ("rm x;" * 20_000, "rm x;" * 20_000),
    ],
)
def test_what_cannot_be_resolved_is_shown_whole(script: str, shown: str) -> None:
    assert shown in names(script)


WORDS = st.sampled_from(["rm", "git", "./run.sh", "/bin/mv", "make"]).map(lambda word: f"{word}-{{}}")
FORMS = (
    "{0}", "{0} -a 'b c'", "A=1 {0}", ">out {0} x", "{0} > out 2>&1", "sudo {0} x", "sudo -u root {0}", "env B=2 {0}",
    "nohup {0}", "time {0}", "xargs -0 {0}", "timeout 5 {0}", "bash -c '{0} x'", "eval {0}", 'echo "a $({0}) b"',
    "echo `{0}`", "cat <({0})", "echo ${{x:-$({0})}}", "B=$({0})", "export C=$({0} x)", "echo $((1 + $({0})))",
    "find . -exec {0} {{}} +", "! {0}", "[[ -n $({0}) ]]", "a=(1 $({0}))", "sudo >log {0}",
)  # fmt: skip
COMPOUNDS = (
    "{0}; {1}", "{0} && {1}", "{0} || {1}", "{0} | {1}", "{0} & {1}", "({0}; {1})", "{{ {0}; {1}; }}",
    "if {0}; then {1}; fi", "if true; then {0}; else {1}; fi", "for i in 1 2; do {0}; {1}; done",
    "while {0}; do {1}; done", "case x in a) {0};; *) {1};; esac", "f() {{ {0}; }}; {1}", "{0}\n{1}",
    "until {0}; do {1}; done", "for ((i=0; i<3; i++)); do {0}; {1}; done",
)  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn) -> tuple[str, set[str]]:
    """A compound command, and every command word in it."""
    used: set[str] = set()

    def simple() -> str:
        word = draw(WORDS).format(len(used))
        used.add(word)
        return draw(st.sampled_from(FORMS)).format(word)

    def compound(depth: int) -> str:
        if depth == 0 or draw(st.booleans()):
            return simple()
        parts = compound(depth - 1), compound(depth - 1)
        return draw(st.sampled_from(COMPOUNDS)).format(*parts)

    return compound(3), used


@given(scripts())
def test_no_command_word_of_a_generated_compound_is_ever_hidden(generated: tuple[str, set[str]]) -> None:
    script, used = generated
    shown = names(script)
    assert [word for word in used if not any(word in name for name in shown)] == []
    # It is parsed: showing the script as a whole would hide nothing and say nothing.
    assert script not in shown or script in used


@given(st.text(max_size=200))
def test_any_text_gives_an_answer(script: str) -> None:
    shown = names(script)
    assert all(shown) or not script.strip()

from __future__ import annotations

import re

import made_publications as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config import parse_config
from bot.github import command_answer
from bot.github.command_text import HOW_TO, MAX_LINE, Command, CommandError, parse_command
from bot.github.state import MAX_REASON, Decision, Seen

FINGERPRINT = "0123abcd4567ef89"


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/opdiff retry", Command("retry")),
        ("  /opdiff   retry  \r\nthanks", Command("retry")),
        ("/opdiff\tretry", Command("retry")),
        ("/opdiff run nn.functional.softplus", Command("run", ops=("nn.functional.softplus",))),
        ("/opdiff run add, `Tensor.mul_`, add", Command("run", ops=("add", "Tensor.mul_"))),
        ("/opdiff run add --budget 600", Command("run", ops=("add",), budget=600.0)),
        ("/opdiff run --budget=1.5s add", Command("run", ops=("add",), budget=1.5)),
        ("/opdiff draft 0123ABCD", Command("draft", fingerprint="0123abcd")),
        (
            f"/opdiff ignore `{FINGERPRINT}` rounding of  old  CPUs",
            Command("ignore", fingerprint=FINGERPRINT, reason="rounding of old CPUs"),
        ),
        (
            "/opdiff accept 0123abcd we meant it: see #5",
            Command("accept", fingerprint="0123abcd", reason="we meant it: see #5"),
        ),
        (
            "/opdiff wrong 0123abcd a\u202eb",
            Command("wrong", fingerprint="0123abcd", reason="a\\u202eb"),
        ),
    ],
)
def test_commands(body: str, command: Command) -> None:
    assert parse_command(body) == command


@pytest.mark.parametrize(
    "body",
    [
        "", "\n/opdiff retry", "please\n/opdiff retry", "please /opdiff retry", "    /opdiff retry", "\t/opdiff retry",
        "```\n/opdiff retry\n```", "`/opdiff retry`", "> /opdiff retry", "- /opdiff retry", "<!--\n/opdiff retry\n-->",
        "/opdiffretry", "/opdiff-retry", "/OpDiff retry", "//opdiff retry", "\u200b/opdiff retry", "/ opdiff retry",
    ],
)  # fmt: skip
def test_what_is_no_command(body: str) -> None:
    assert parse_command(body) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("/opdiff", "Which command? OpDiff knows `run`, `retry`, `ignore`, `accept`, `wrong`, `draft`."),
        ("/opdiff merge", "There is no command `merge`. OpDiff knows `run`,"),
        ("/opdiff Retry", "There is no command `Retry`."),
        ("/opdiff </details>@everyone-team", "There is no command `</details>@everyone-team`."),
        ("/opdiff run", "name an op"),
        ("/opdiff run --budget 5", "name an op"),
        ("/opdiff run os.system('x')", "`os.system('x')` is no op's name"),
        ("/opdiff run ../x", "`../x` is no op's name"),
        ("/opdiff run a\u0430dd", "is no op's name"),
        ("/opdiff run " + "a" * 121, "is no op's name"),
        ("/opdiff run " + " ".join(f"op{i}" for i in range(51)), "at most 50 ops"),
        ("/opdiff run add --budget", "a budget is 1 to 86400 seconds"),
        ("/opdiff run add --budget 0", "a budget is"),
        ("/opdiff run add --budget 86401", "a budget is"),
        ("/opdiff run add --budget nan", "a budget is"),
        ("/opdiff run add --budget 1e3", "a budget is"),
        ("/opdiff run add --budget -5", "a budget is"),
        ("/opdiff run add --budget ٣", "a budget is"),
        ("/opdiff run add --out /etc", "there is no option `--out`"),
        ("/opdiff retry now", "it takes nothing more"),
        ("/opdiff ignore", "a fingerprint is 8 to 64 hexadecimal digits"),
        ("/opdiff ignore 0123abc why", "a fingerprint is"),
        ("/opdiff ignore 0123abcg why", "a fingerprint is"),
        ("/opdiff ignore " + "a" * 65 + " why", "a fingerprint is"),
        ("/opdiff ignore 0123abcd", "say why"),
        ("/opdiff accept 0123abcd   ", "say why"),
        ("/opdiff wrong 0123abcd", "say why"),
        ("/opdiff draft 0123abcd please", "nothing more"),
        ("/opdiff ignore 0123abcd " + "x" * MAX_LINE, "longer than 2000"),
    ],
)  # fmt: skip
def test_one_helpful_line(body: str, says: str) -> None:
    error = parse_command(body)
    assert isinstance(error, CommandError)
    assert says in error.message
    assert "\n" not in error.message
    made.assert_harmless(error.message)


def test_a_long_reason_is_kept_as_far_as_the_state_holds_it() -> None:
    command = parse_command(f"/opdiff wrong 0123abcd {'x' * 1_000}")
    assert isinstance(command, Command)
    assert command.reason == "x" * MAX_REASON


words = st.lists(
    st.sampled_from(["run", "retry", "ignore", "accept", "wrong", "draft", "--budget", "5", FINGERPRINT, "add", *made.HOSTILE])
    | st.text(max_size=20),
    max_size=8,
).map(" ".join)  # fmt: skip


@given(words)
def test_any_text_is_a_valid_decision_or_one_harmless_line(text: str) -> None:
    command = parse_command(f"/opdiff {text}")
    if isinstance(command, Command):
        Decision(
            comment=1,
            verb=command.verb,
            author="a",
            head=made.HEAD,
            fingerprint=command.fingerprint,
            reason=command.reason,
            ops=command.ops,
            budget=command.budget,
        )
        assert made.shows_all(command.reason)
        for answer in answers(command):
            made.assert_harmless(answer)
    else:
        assert command is not None
        assert len(command.message) < 1_000
        made.assert_harmless(command.message)


@given(st.text(max_size=100), st.text(max_size=100))
def test_only_the_first_line_counts(first: str, rest: str) -> None:
    line = re.split(r"\r\n|\n|\r", first)[0]
    assert parse_command(f"{line}\n{rest}") == parse_command(line)


def seen(op: str = "add", fingerprint: str = FINGERPRINT) -> Seen:
    return Seen(fingerprint=fingerprint, op=op, kind="nan", verdict="upstream")


def answers(command: Command) -> list[str]:
    hostile = seen("".join(made.HOSTILE)[:120])
    return [
        command_answer.recorded(command, finding, url)
        for finding in (None, hostile)
        for url in ("", made.DRAFT_URL)
    ]


def test_ignore_suggests_lines_that_the_configuration_takes() -> None:
    reason = 'it\'s "fine": #5 {a} [b] & *c | > % @d `e` \\n ```'
    answer = command_answer.recorded(
        Command("ignore", fingerprint="0123abcd", reason=reason), seen()
    )
    found = re.search(r"^(`{3,})yaml\n(.*)\n\1$", answer, re.S | re.M)
    assert found is not None
    config = parse_config(found[2].encode(), "opdiff.yml")
    assert [(rule.fingerprint, rule.reason) for rule in config.ignore] == [(FINGERPRINT, reason)]
    assert "`.github/opdiff.yml` on the base branch" in answer
    made.assert_harmless(answer)


@given(made.long_text(300).map(lambda text: f"/opdiff ignore {FINGERPRINT} x{text}"))
def test_any_reason_makes_a_configuration(body: str) -> None:
    command = parse_command(body)
    if isinstance(command, Command):
        answer = command_answer.ignore_suggestion(seen(), command.reason)
        found = re.search(r"^(`{3,})yaml\n(.*)\n\1$", answer, re.S | re.M)
        assert found is not None
        assert parse_config(found[2].encode(), "opdiff.yml").ignore[0].fingerprint == FINGERPRINT


def test_answers() -> None:
    run = Command("run", ops=("add", "mul"), budget=60.0)
    assert command_answer.recorded(run, None) == "Recorded: test `add`, `mul` too, within 60 s."
    accept = Command("accept", fingerprint="0123abcd", reason="meant")
    assert command_answer.recorded(accept, seen()) == (
        f"Recorded: `{FINGERPRINT}` (`add`, nan) is accepted as a change that is meant."
    )
    draft = Command("draft", fingerprint="0123abcd")
    assert made.DRAFT_URL in command_answer.recorded(draft, seen(), made.DRAFT_URL)
    assert "There is no draft" in command_answer.recorded(draft, seen())
    assert command_answer.no_such_finding("0123abce", [seen()]) == (
        f"No finding of the last report begins with `0123abce`. There are `{FINGERPRINT}`."
    )
    assert "2 findings begin with `0123abcd`" in command_answer.ambiguous("0123abcd", [seen(), seen()])  # fmt: skip
    assert command_answer.head_moved(made.BASE, made.HEAD).startswith(
        f"The head is now `{made.HEAD[:10]}`, not `{made.BASE[:10]}`"
    )
    for answer in (
        command_answer.nothing_to_rerun(),
        command_answer.no_such_finding("0123abcd", []),
        HOW_TO,
    ):
        made.assert_harmless(answer)

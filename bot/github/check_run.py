"""The check run on the head commit: one for each attempt of the check stage, with all its annotations, each once.

``external_id`` says which attempt a check run speaks of. GitHub adds annotations to those that are there, at most 50
a request, and counts them: what the count says is where a request that failed is taken up again. Its list may lag
behind for seconds, so that its answer to a write counts where it knows more. Nothing can delete a check run, so of two
with one id (two jobs began at once) the older has the annotations and both the same conclusion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bot.github.check_run_body import Annotation, CheckRunBody
from bot.github.client import ApiModel, Client
from bot.github.event import Id
from bot.github.publication import Posted

NAME: Final = "OpDiff"
ANNOTATIONS_A_REQUEST: Final = 50


class _Output(ApiModel):
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations_count: int = 0


class CheckRunRow(ApiModel):
    """A check run, as much as is used of it."""

    id: Id
    external_id: str | None
    html_url: str | None
    status: str
    conclusion: str | None
    output: _Output


@dataclass(frozen=True)
class CheckRunSubject:
    """What a check run speaks of: a pull request's head, and the check stage's run and attempt."""

    number: int
    head: str
    run: int
    attempt: int
    details_url: str

    @property
    def external_id(self) -> str:
        """``opdiff:PULL REQUEST:RUN:ATTEMPT``."""
        return f"opdiff:{self.number}:{self.run}:{self.attempt}"


def post_check_run(client: Client, subject: CheckRunSubject, body: CheckRunBody) -> Posted:
    """Make the attempt's check run say ``body``; left alone when a later attempt's is there. Raises ApiError."""
    # What GitHub took is said, even where it gives the texts back in another form.
    answers: dict[int, CheckRunRow] = {}

    def write(verb: str, path: str, body: Mapping[str, Any]) -> None:
        row = client.parse(CheckRunRow, client.write(verb, path, body), path)
        answers[row.id] = row

    def step() -> Posted | None:
        rows = _rows(client, subject.head, answers)
        if any(_age(row, subject.number) > (subject.run, subject.attempt) for row in rows):
            return Posted("", "a later run has been published")
        own = [row for row in rows if row.external_id == subject.external_id]
        if not own:
            write("POST", client.path("check-runs"), _new(subject, body))
            return None
        for row in own:
            annotations_left = _annotations_left(row, body) if row is own[0] else ()
            if annotations_left or not (row.id in answers or _says(row, body)):
                change = _changed(body, annotations_left)
                write("PATCH", client.path("check-runs", row.id), change)
                return None
        return Posted(own[0].html_url or "")

    return client.settle(step)


def _rows(client: Client, head: str, answers: Mapping[int, CheckRunRow]) -> list[CheckRunRow]:
    """All of OpDiff's check runs on a commit, the oldest first; ``answers`` are those that were written just now."""
    listed = client.pages(
        CheckRunRow,
        client.path("commits", head, "check-runs"),
        {"check_name": NAME, "filter": "all"},
        key="check_runs",
    )
    rows = {row.id: row for row in listed}
    for answer in answers.values():
        row = rows.get(answer.id)
        if row is None or row.output.annotations_count < answer.output.annotations_count:
            rows[answer.id] = answer
    return sorted(rows.values(), key=lambda row: row.id)


def _age(row: CheckRunRow, number: int) -> tuple[int, int]:
    """The run and attempt that a check run of this pull request speaks of, else zeros."""
    found = re.fullmatch(r"opdiff:([0-9]{1,18}):([0-9]{1,18}):([0-9]{1,9})", row.external_id or "")
    if found is None or int(found[1]) != number:
        return (0, 0)
    return (int(found[2]), int(found[3]))


def _new(subject: CheckRunSubject, body: CheckRunBody) -> dict[str, Any]:
    return {
        "name": NAME,
        "head_sha": subject.head,
        "external_id": subject.external_id,
        "details_url": subject.details_url,
        "status": "completed",
        "conclusion": body.conclusion,
        "output": _output(body, body.annotations[:ANNOTATIONS_A_REQUEST]),
    }


def _annotations_left(row: CheckRunRow, body: CheckRunBody) -> Sequence[Annotation]:
    """The annotations of the next request: GitHub counts those that it has."""
    there = row.output.annotations_count
    return body.annotations[there : there + ANNOTATIONS_A_REQUEST]


def _says(row: CheckRunRow, body: CheckRunBody) -> bool:
    said = (row.conclusion, row.output.title, _text(row.output.summary), _text(row.output.text))
    return said == (body.conclusion, body.title, _text(body.summary), _text(body.text))


def _changed(body: CheckRunBody, annotations: Sequence[Annotation]) -> dict[str, Any]:
    output = {"text": body.text, **_output(body, annotations)}  # an empty text takes one away
    return {"status": "completed", "conclusion": body.conclusion, "output": output}


def _output(body: CheckRunBody, annotations: Sequence[Annotation]) -> dict[str, Any]:
    output: dict[str, Any] = {"title": body.title, "summary": body.summary}
    if body.text:
        output["text"] = body.text
    if annotations:
        output["annotations"] = [_annotation(annotation) for annotation in annotations]
    return output


def _annotation(annotation: Annotation) -> dict[str, Any]:
    return {
        "path": annotation.path,
        "start_line": annotation.start_line,
        "end_line": annotation.end_line,
        "annotation_level": annotation.annotation_level,
        "title": annotation.title,
        "message": annotation.message,
    }


def _text(text: str | None) -> str:
    return (text or "").replace("\r\n", "\n").rstrip()

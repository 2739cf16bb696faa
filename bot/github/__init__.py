"""GitHub: events, pull requests, comments, check runs, artifacts, commands.

The stories are :mod:`bot.publish`, :mod:`bot.answer` and :mod:`bot.precision`; this room has what they are made of:

- the job and the API: ``job``, ``event``, ``client``
- what a run belongs to, asked of the API: ``workflow_run``, ``pull_request``, ``head_runs``, ``permission``,
  ``repository_config``
- what the check stage left, read as hostile: ``artifact_download``, ``artifact``, ``check_report``
- what is said, pure text: a ``publication`` becomes ``comment_body`` and ``check_run_body``, results become
  ``step_summary`` and ``outputs``; made of ``headline``, ``paragraphs``, ``sections`` and
  ``since`` (what changed since the last push), and cut to size by ``fitting``
- what is written: ``sticky_comment`` and ``check_run``; ``own_comments``, ``marker`` and ``state`` are what the
  comment remembers, and what of it is believed
- commands: ``command_text``, ``conversation``, ``command_answer``, ``rerun``; ``requested`` is what a plan reads of them
- counted over all pull requests: ``given_verdicts``
"""

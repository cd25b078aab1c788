"""Error texts for the command line: options instead of arguments, commands instead of calls."""

from __future__ import annotations

import re

# Pattern in an error text for programs -> its replacement for the command line. All matching rows apply.
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(said), meant)
    for said, meant in (
        (r"List them: GET /v1/(requests|grants)", r"List them: python -m syft node \1 list"),
        (r"List them: GET /v1/budget", r"List them: python -m syft node budget show"),
        (r"see which there are with (requests|grants)\.list\(\)", r"list them: python -m syft node \1 list"),
        (r"port=\.\.\.", "--port"),
        (r"pass home\.", "pass --home FOLDER."),
        (r"ca='authority\.pem'", "--ca authority.pem"),
        (r"pass secure=True, and ca=\.\.\.", "write wss:// before its name, and give --ca FILE"),
        (r"pass token=\.\.\. to sy\.connect, or --token-file FILE to a command", "give --token-file FILE"),
        (r"Leave out user=? to list", "Leave out --user to list"),
        (r'scope="result"', "--scope result"),
        (r"expires must be a positive number of seconds, or None", "--expires must be a positive number of seconds"),
        (
            r"from syft\.grid import certificates; certificates\.issue\(.*?\), \[HOST\], FOLDER\)",
            "python -m syft node certs authority FOLDER --name TEAM, then python -m syft node certs issue --help",
        ),
        (
            r"certificates\.issue\(authority, \['?([^]']*)'?\], FOLDER\)",
            r"python -m syft node certs issue CERTS --authority FOLDER --host \1",
        ),
        (
            r"syft\.grid\.certificates\.issue\(authority, hosts, folder\)",
            "python -m syft node certs issue, and restart the node",
        ),
        (r"\(python: syft\.grid\.certificates\)", "(--cert and --key; python -m syft node certs --help)"),
    )
)


def translated(text: str) -> str:
    """Return an error text with options and commands instead of arguments and calls.

    Example:
        >>> translated("There is no request 'x'. List them: GET /v1/requests")
        "There is no request 'x'. List them: python -m syft node requests list"
    """
    for said, meant in _WORDS:
        text = said.sub(meant, text)
    return text

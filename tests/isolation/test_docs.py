"""The table of roles in the documentation is the table that processes are started by."""

from __future__ import annotations

from pathlib import Path

from kernelwright.isolation.roles import ROLES, Role

PAGE = Path(__file__).parents[2] / "docs" / "isolation.md"


def row(role: Role) -> str:
    rules = ROLES[role]
    cells = (role, rules.filter, rules.files, rules.devices, rules.proc, rules.user, rules.variables)
    return f"| {' | '.join(cells)} | {rules.processes or 'no limit'} |"


def test_the_page_has_the_rows_of_the_table() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("| role |"))
    assert lines[head + 2 : head + 2 + len(Role)] == [row(role) for role in Role]

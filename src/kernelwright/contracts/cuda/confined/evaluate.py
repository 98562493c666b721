"""Calls a candidate's plan(...) once for each workload and writes down what it returned.

    evaluate.py REQUEST OUTPUT GO

REQUEST is JSON: the device and, for each workload, the arguments in order. OUTPUT becomes a JSON list of plans. A byte
from the pipe GO says that REQUEST and plan.py lie in the script's folder.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

PLAN = "plan.py"


def stand_in(kw: Any, raw: dict[str, Any]) -> Any:
    if "value" in raw:
        return raw["value"]
    return kw.Tensor(raw["name"], raw["dtype"], tuple(raw["shape"]), tuple(raw["strides"]))


def as_plan(kw: Any, returned: Any) -> dict[str, Any]:
    if isinstance(returned, kw.Launch):
        returned = kw.Plan((returned,))
    elif isinstance(returned, (list, tuple)) and all(isinstance(step, kw.Launch) for step in returned):
        returned = kw.Plan(tuple(returned))
    if not isinstance(returned, kw.Plan):
        raise TypeError(f"plan() returned {type(returned).__name__}: return kw.plan(kw.launch(...), ...)")
    made: dict[str, Any] = returned.to_json()
    return made


def evaluate(kw: Any, folder: Path, request: dict[str, Any]) -> list[dict[str, Any]]:
    kw.device = kw.Device(**request["device"])
    scope: dict[str, Any] = {"__name__": "plan"}
    exec(compile((folder / PLAN).read_text(encoding="utf-8"), PLAN, "exec"), scope)
    if not callable(scope.get("plan")):
        raise TypeError("plan.py defines no function plan(...)")
    plans = []
    for arguments in request["workloads"]:
        kw.made.clear()
        plans.append(as_plan(kw, called(scope["plan"], kw, arguments)))
    return plans


def called(plan: Any, kw: Any, arguments: list[dict[str, Any]]) -> Any:
    given = [stand_in(kw, raw) for raw in arguments]
    try:
        return plan(*given)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # raised inside of the plan
            raise
        expected = ", ".join(raw["name"] for raw in arguments)
        raise TypeError(f"{error}: it is called as plan({expected})") from error


def main() -> int:
    request_path, output_path, go = map(Path, sys.argv[1:4])
    sys.path.insert(0, str(request_path.parent))
    import kw  # type: ignore[import-not-found]  # the copy beside the plan

    with go.open("rb") as pipe:
        pipe.read(1)
    try:
        plans = evaluate(kw, request_path.parent, json.loads(request_path.read_text(encoding="utf-8")))
        output_path.write_text(json.dumps(plans, allow_nan=False), encoding="utf-8")
    except BaseException as error:  # whatever a plan does is the candidate's fault, SystemExit included
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == PLAN]
        where = "".join(f"plan.py:{frame.lineno}: in {frame.name}\n" for frame in frames[-8:])
        sys.stderr.write(f"{where}{type(error).__name__}: {error}\n"[:4000])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

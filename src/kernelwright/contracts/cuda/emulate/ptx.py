"""Inline PTX that the emulator knows, rewritten as calls of `kw::ptx`: one instruction in each `asm volatile`.

The call's arguments are the instruction's operands in the order in which its text names them. A predicate that is made
for the instruction, from whether an operand is zero, is that operand.
"""

from __future__ import annotations

import re

INSTRUCTIONS = {
    "cp.async.cg.shared.global": "copy",
    "cp.async.ca.shared.global": "copy",
    "cp.async.commit_group": "commit",
    "cp.async.wait_group": "wait",
    "cp.async.mbarrier.arrive.noinc.shared.b64": "arrive_with_copies",
    "mbarrier.init.shared.b64": "set_barrier",
    "mbarrier.arrive.shared.b64": "arrive",
    "mbarrier.try_wait.parity.shared.b64": "await",
    "bar.sync": "meet_some",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": "load_matrices",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": "load_matrices_turned",
    "ex2.approx.ftz.f32": "power_of_two",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": "multiply_tf32",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": "multiply_narrow<__nv_bfloat16>",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": "multiply_narrow<__half>",
    **{
        f"mma.sync.aligned.m16n8k32.row.col.f32.{left}.{right}.f32": f"multiply_bytes<kw::{left}, kw::{right}>"
        for left in ("e4m3", "e5m2")
        for right in ("e4m3", "e5m2")
    },
    **{
        f"mma.sync.aligned.m16n8k32.row.col.s32.{left}.{right}.s32": f"multiply_bytes<kw::{left}, kw::{right}>"
        for left in ("s8", "u8")
        for right in ("s8", "u8")
    },
}
# How launches, or a warpgroup's products and the threads that ask for them, overlap, which they do not here; how many
# registers a warp has; and no instruction, which compilers take for a use of its operands.
_ORDER = re.compile(
    r"griddepcontrol\.\w+|wgmma\.(?:fence|commit_group|wait_group)\.sync\.aligned|fence\.proxy\.async(?:\.shared::cta)?"
    r"|setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32|"
)
_GROUP = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d{1,3})k8\.f32\.tf32\.tf32")
_NARROW_GROUP = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d{1,3})k16\.f32\.(bf16|f16)\.\2")
_NARROW = {"bf16": "__nv_bfloat16", "f16": "__half"}
_PREDICATED = re.compile(r"\{\s*+\.reg \.pred (\w+);\s*+setp\.ne\.b32 \1, (%\d+), 0;\s*+([^;]*);\s*\}")
# A predicate that an instruction makes, as a number.
_AWAITED = re.compile(
    r"\{\s*+\.reg \.pred (\w+);\s+mbarrier\.try_wait\.parity\.shared\.b64 \1, \[(%\d+)\], (%\d+);\s+"
    r"selp\.u32 (%\d+), 1, 0, \1;\s*\}"
)
# Possessive, and also ended by the end of the text, so that nothing is looked at twice whatever the source has.
_STATEMENT = re.compile(r"asm\s++volatile\s*+\(((?:\s*+\"[^\"]*\")++)((?:[^;\"]|\"[^\"]*(?:\"|\Z))*+)(?:;|\Z)")
_STRING = re.compile(r"\"([^\"]*)\"")
_NAMED = re.compile(r"%\d+|\b\d+\b")


def without_known_ptx(source: str) -> str:
    """The same lines; what is not known stays and is refused."""
    return _STATEMENT.sub(lambda found: _rewritten(found) + "\n" * found.group(0).count("\n"), source)


def _rewritten(found: re.Match[str]) -> str:
    behind = found.group(2).rstrip()
    if not behind.endswith(")"):
        return found.group(0)
    text = "".join(_STRING.findall(found.group(1))).replace("\\n", " ").strip().removesuffix(";")
    if awaited := _AWAITED.fullmatch(text):
        text = f"mbarrier.try_wait.parity.shared.b64 {awaited[4]}, {awaited[2]}, {awaited[3]}"
    elif predicated := _PREDICATED.fullmatch(text):
        text = re.sub(rf"\b{predicated[1]}\b", predicated[2], predicated[3])
    instruction, _, named = text.partition(" ")
    if _ORDER.fullmatch(instruction):
        return ";"
    group, narrow = _GROUP.fullmatch(instruction), _NARROW_GROUP.fullmatch(instruction)
    if (group is None and narrow is None and instruction not in INSTRUCTIONS) or ";" in named:
        return found.group(0)
    operands = _operands(behind[:-1])
    names = _NAMED.findall(named)
    if any(name[0] == "%" and name not in operands for name in names):
        return found.group(0)
    given = [name if name[0] != "%" else f"({operands[name]})" for name in names]
    if narrow is not None:
        return _of_two_in_memory(int(narrow[1]) // 2, _NARROW[narrow[2]], given) or found.group(0)
    if group is None:
        return f"kw::ptx::{INSTRUCTIONS[instruction]}({', '.join(given)});"
    count = int(group[1]) // 2
    if len(given) != count + 8 or "-" in named:  # the left operand in shared memory, or signs changed
        return found.group(0)
    sums = ", ".join(f"&{one}" for one in given[:count])
    return f"{{ float* const sums[] = {{{sums}}}; kw::ptx::multiply_group(sums, {', '.join(given[count:-2])}); }}"


def _of_two_in_memory(count: int, kind: str, given: list[str]) -> str | None:
    """A warpgroup's product of 16-bit operands that both lie in shared memory, with signs as they are."""
    if len(given) != count + 7 or given[count + 3 : count + 5] != ["1", "1"]:
        return None
    sums = ", ".join(f"&{one}" for one in given[:count])
    left, right, more, _, _, left_turned, right_turned = given[count:]
    rest = ", ".join((left, right, more, left_turned, right_turned))
    return f"{{ float* const sums[] = {{{sums}}}; kw::ptx::multiply_narrow_group<{kind}>(sums, {rest}); }}"


_CONSTRAINT = re.compile(r"\"[^\"]*\"\s*+\(")


def _operands(text: str) -> dict[str, str]:
    """The expressions of `"=f"(a), "r"(f(b))`, by the names that the instruction has for them."""
    found: list[str] = []
    end = 0
    while constraint := _CONSTRAINT.search(text, end):
        depth, end = 1, constraint.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if depth:
            break
        found.append(" ".join(text[constraint.end() : end - 1].split()))
    return {f"%{number}": operand for number, operand in enumerate(found)}

"""What a report is asked to be about: runs, archives and folders of them, and kernels with their certificates.

Everything that is named may come from a stranger: it is read within limits, and nothing that it names is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kernelwright.archives import SEPARATOR, cached_folder, read_archive, split_name
from kernelwright.errors import KernelwrightError
from kernelwright.judge import certificate as certificates
from kernelwright.judge.certificate import Certificate
from kernelwright.report.fold import run_view
from kernelwright.report.kernel import kernel_view
from kernelwright.report.model import Audience, ReportView, RunView
from kernelwright.report.proofs import beside, certificate_view, is_full, of_certificates
from kernelwright.report.results import result_reports, result_view
from kernelwright.search.core.score import score
from kernelwright.search.journal import NAME as JOURNAL
from kernelwright.search.session import find, runs_in
from kernelwright.version import __version__

MOST_RESULTS = 64  # on one page


def report_view(given: Sequence[str], root: Path, audience: Audience = Audience.author) -> ReportView:
    runs: list[RunView] = []
    for one in given:
        runs += _named(one, root, audience)
        if len(runs) > MOST_RESULTS:
            raise KernelwrightError(f"{one}: a report shows {MOST_RESULTS} results at most; name some of them")
    return ReportView(audience, tuple(runs), __version__)


def one_run(given: str, root: Path, audience: Audience = Audience.author) -> RunView:
    """Exactly one run or kernel."""
    found = _named(given, root, audience)
    if len(found) != 1:
        names = ", ".join(run.name for run in found[:4])
        raise KernelwrightError(f"{given}: holds {len(found)} results ({names}, …); name one of them")
    return found[0]


def run_folder(given: str, root: Path) -> Path:
    """The directory of a run by its path, its name, or ARCHIVE::NAME."""
    archived = split_name(given)
    return cached_folder(*archived) if archived else find(given, root)


def _named(given: str, root: Path, audience: Audience) -> list[RunView]:
    archived = split_name(given)
    if archived:
        return _archived(*archived, audience)
    path = Path(given)
    if path.is_file() and (reports := result_reports(path)):
        return [result_view(one, audience) for one in reports]
    if path.is_file() or (not path.exists() and not (root / given).exists() and _is_kept(given)):
        return [_kernel(path.stem if path.is_file() else given, {given: certificates.load(given)}, audience)]
    folder = find(given, root)
    if (folder / JOURNAL).is_file():
        return [run_view(folder, audience)]
    inner = [*runs_in(folder)]
    if inner:
        return [run_view(one, audience) for one in inner]
    found = dict(beside(folder))
    if not found:
        raise KernelwrightError(
            f"{given}: holds neither a run ({JOURNAL}) nor runs nor certificates; `kernelwright runs list` lists runs"
        )
    return [_kernel(folder.name, group, audience) for group in _by_candidate(found)]


def _is_kept(given: str) -> bool:
    """Whether it is the name of a certificate of this installation."""
    return "/" not in given and (certificates.folder() / f"{given.removesuffix('.json')}.json").is_file()


def _archived(path: Path, member: str, audience: Audience) -> list[RunView]:
    """One folder of an archive, or each of them."""
    names = [member] if member else read_archive(path).folders()
    found: list[RunView] = []
    for name in names:
        folder = cached_folder(path, name)
        if (folder / JOURNAL).is_file():
            found.append(run_view(folder, audience, path.name))
            continue
        issued = dict(beside(folder))
        if not issued and member:
            raise KernelwrightError(f"{path}{SEPARATOR}{name}: holds neither a run nor certificates")
        found += [_kernel(name, group, audience, path.name) for group in _by_candidate(issued)]
    if not found:
        raise KernelwrightError(f"{path}: holds neither runs nor certificates; `kernelwright replay {path}` lists it")
    return found


def _by_candidate(found: Mapping[str, Certificate]) -> Iterable[dict[str, Certificate]]:
    groups: dict[tuple[str, str], dict[str, Certificate]] = {}
    for name, issued in found.items():
        groups.setdefault((issued.task.name, issued.candidate.id), {})[name] = issued
    return groups.values()


def _kernel(name: str, found: Mapping[str, Certificate], audience: Audience, archive: str = "") -> RunView:
    """A kernel that certificates of one candidate speak for: the last full judging, and the others beside it."""
    order = sorted(found, key=lambda one: (is_full(found[one]), found[one].issued))
    main = order[-1]
    issued = found[main]
    others = {one: found[one] for one in order[:-1]}
    spoken = of_certificates({main: issued}, issued.verdict)
    best = kernel_view(
        issued.verdict,
        issued.source,
        audience,
        standing=spoken.standing,
        why=spoken.why,
        score=score(issued.verdict),
        origin=issued.candidate.name,
        certificates=tuple(certificate_view(one, found[one], archive) for one in (main, *others)),
        further=others,
    )
    return RunView(
        name=name,
        task=issued.task.name,
        task_digest=issued.task.digest,
        device=issued.verdict.conditions.device,
        contract=issued.candidate.contract,
        baselines=issued.settings.baselines,
        threads=issued.settings.threads,
        begun_here=False,
        began=issued.issued[:10],
        best=best,
        no_best=(),
        search=None,
    )

"""Checks of running processes' releases, and of the versions of the bus contract between them."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from headrace.model.messages import ProcessFound
from headrace_cli.doctor.diagnosis import Diagnosis, first_of, ok, problem, warning

VERSIONS = "versions"


def check_versions(found: Sequence[ProcessFound], workers: Collection[str]) -> Iterator[Diagnosis]:
    """Yield what is found about the processes that answered, and live `workers` that did not."""
    yield from _unread(found)
    releases: dict[str, Counter[str]] = {}
    for one in found:
        releases.setdefault(one.release, Counter())[one.service] += 1
    if len(releases) > 1:
        text = "; ".join(
            f"{release}: {_numbers(of_release)}" for release, of_release in sorted(releases.items())
        )
        yield warning(
            VERSIONS, f"several releases are running: {text}", "finish the upgrade, or roll back"
        )
    elif found:
        [(release, numbers)] = releases.items()
        yield ok(VERSIONS, f"release {release}: {_numbers(numbers)}")
    answered = {one.process for one in found if one.service == "worker"}
    if silent := len(set(workers) - answered):
        yield warning(
            VERSIONS,
            f"{silent} of {len(workers)} workers do not state their release",
            "upgrade them if they are of an earlier one, let NATS permit the question "
            "(headrace nats-permissions), or repeat this if they were busy or have just died",
        )
    if all(one.service != "gateway" for one in found):
        yield warning(
            VERSIONS,
            "no gateway states its release",
            "start one, or let NATS permit the question (headrace nats-permissions)",
        )


def _unread(found: Sequence[ProcessFound]) -> Iterator[Diagnosis]:
    """Yield each version of the bus contract that is written and not read by all."""
    written: dict[str, list[ProcessFound]] = {}
    for one in found:
        written.setdefault(one.writes, []).append(one)
    for version, writers in sorted(written.items()):
        deaf = [one for one in found if version not in one.reads]
        if deaf:
            yield problem(
                VERSIONS,
                f"{_named(writers)} write version {version} of the bus contract, which "
                f"{_named(deaf)} do not read ({', '.join(deaf[0].reads)})",
                "upgrade those, or set HEADRACE_LOG_VERSION lower on the writers",
            )


def _named(processes: Sequence[ProcessFound]) -> str:
    names = [f"{one.service} {one.process} ({one.release})" for one in processes]
    return first_of(names, 1)


def _numbers(services: Counter[str]) -> str:
    return ", ".join(f"{number} {service}" for service, number in sorted(services.items()))

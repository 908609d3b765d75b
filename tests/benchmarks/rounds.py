"""Samples in turn, server by server, so that what disturbs one disturbs the other."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.benchmarks import processor_time
from tests.benchmarks.bindings import Binding
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.measure import COST, Measure, Place, Sample
from tests.benchmarks.sizes import TINY, Sizes


@dataclass(slots=True)
class Result:
    """All samples that one measure took of one server."""

    samples: list[Sample] = field(default_factory=list)
    processor: list[dict[str, float]] = field(default_factory=list)
    """Of each sample, microseconds of processor time per event, or run, by role.

    Until the server was idle again.
    """

    def add(self, other: "Result") -> None:
        """Add samples that were taken later."""
        self.samples += other.samples
        self.processor += other.processor

    def figures(self, name: str = "") -> list[float]:
        """Return the samples' values, a detail of each, or (`COST`) what each cost."""
        if name == COST:
            return [sum(by_role.values()) for by_role in self.processor]
        return [sample.details[name] if name else sample.value for sample in self.samples]

    @property
    def microseconds_each(self) -> dict[str, float]:
        """Return the medians of the processor time per event, or run, by role."""
        roles = self.processor[0] if self.processor else {}
        return {
            role: statistics.median(by_role.get(role, 0.0) for by_role in self.processor)
            for role in roles
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """How samples are taken."""

    binding: Binding
    sizes: Sizes
    rounds: int
    say: Callable[[str], None]
    """Is told of each sample."""


async def run(measure: Measure, contestants: Sequence[Contestant], plan: Plan) -> dict[str, Result]:
    """Return the results of `measure` by server, the servers taking turns."""
    contestants = [each for each in contestants if can_take(each, measure, plan.binding)]
    for contestant in contestants:
        await measure.take(await _prepared(measure, Place(contestant, plan.binding, TINY)))
        await processor_time.settle(contestant)
    results = {contestant.name: Result() for contestant in contestants}
    for _ in range(plan.rounds):
        for contestant in contestants:
            sample = await _sample(measure, contestant, plan, results[contestant.name])
            plan.say(f"{measure.name} {contestant.name}: {sample.value:,.1f} {measure.unit}")
    return results


def can_take(contestant: Contestant, measure: Measure, binding: Binding) -> bool:
    """Tell whether a server has what `measure` asks for, and `binding`."""
    return contestant.name in measure.of and binding.name in contestant.bindings


async def _prepared(measure: Measure, place: Place) -> Place:
    """Return the place with what the measure needs, when its server is idle again."""
    if prepared := await measure.prepare(place):
        await processor_time.settle(place.contestant)
    return replace(place, prepared=prepared)


async def _sample(measure: Measure, contestant: Contestant, plan: Plan, result: Result) -> Sample:
    place = await _prepared(measure, Place(contestant, plan.binding, plan.sizes))
    before = processor_time.by_role(contestant)
    sample = await measure.take(place)
    await processor_time.settle(contestant)
    result.processor.append(
        {
            role: (seconds - before.get(role, 0.0)) / sample.done * 1e6
            for role, seconds in processor_time.by_role(contestant).items()
        }
    )
    result.samples.append(sample)
    return sample

"""Samples in turn, server by server, so that what disturbs one disturbs the other."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.benchmarks import processor_time
from tests.benchmarks.bindings import Binding
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.measure import Measure, Place, Sample
from tests.benchmarks.sizes import TINY, Sizes


@dataclass(slots=True)
class Result:
    """All samples that one measure took of one server."""

    samples: list[Sample] = field(default_factory=list)
    processor: dict[str, float] = field(default_factory=dict)
    """Seconds of processor time by role, over all samples and until the server was idle again."""

    def median(self, detail: str = "") -> float:
        """Return the median of the samples, or of one of their details."""
        return statistics.median(
            sample.details[detail] if detail else sample.value for sample in self.samples
        )

    @property
    def done(self) -> int:
        """Events, or runs, in all."""
        return sum(sample.done for sample in self.samples)

    @property
    def microseconds_each(self) -> dict[str, float]:
        """Processor time per event, or run, by role."""
        return {role: seconds / self.done * 1e6 for role, seconds in self.processor.items()}


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
    contestants = [each for each in contestants if each.name in measure.of]
    for contestant in contestants:
        await measure.take(Place(contestant, plan.binding, TINY))
        await processor_time.settle(contestant)
    results = {contestant.name: Result() for contestant in contestants}
    for _ in range(plan.rounds):
        for contestant in contestants:
            sample = await _sample(measure, contestant, plan, results[contestant.name])
            plan.say(f"{measure.name} {contestant.name}: {sample.value:,.1f} {measure.unit}")
    return results


async def _sample(measure: Measure, contestant: Contestant, plan: Plan, result: Result) -> Sample:
    before = processor_time.by_role(contestant)
    sample = await measure.take(Place(contestant, plan.binding, plan.sizes))
    await processor_time.settle(contestant)
    for role, seconds in processor_time.by_role(contestant).items():
        spent = seconds - before.get(role, 0.0)
        result.processor[role] = result.processor.get(role, 0.0) + spent
    result.samples.append(sample)
    return sample

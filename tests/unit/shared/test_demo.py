from headrace.demo import counter
from headrace.sdk.policy import Retry
from headrace.testing import TestFleet


async def test_the_counter_goes_on_after_its_last_checkpoint_when_its_worker_dies() -> None:
    numbers = list[int]()
    async with TestFleet([counter]) as fleet:
        async for event in fleet.stream("counter", "40 2 10"):
            if event.text:
                numbers.append(int(event.text))
                if len(numbers) == 25:
                    await fleet.kill_worker()
    assert numbers.count(20) == 1
    assert numbers[-20:] == list(range(21, 41))


async def test_the_counter_outlives_more_workers_than_an_agents_usual_attempts() -> None:
    kills, text = Retry().attempts + 1, ""
    async with TestFleet([counter]) as fleet:
        async for event in fleet.stream("counter", "40 2 1"):
            text += event.text or ""
            if kills and event.text:
                kills -= 1
                await fleet.kill_worker()
    assert kills == 0
    assert text.split()[-1] == "40"

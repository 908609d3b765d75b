"""Logs that go on behind the end of their task: the end becomes the last entry again."""

import asyncio
import signal
from pathlib import Path

from headrace.log import last_entry, replay
from headrace.log.read import from_leader, last_raw
from headrace.model.entry import CONTRACT_VERSION, Stamp
from headrace.model.task import COMPLETED, WORKING
from tests.support.legal_logs import LegalLog
from tests.support.task_states import TaskStates, folded, new_key
from tests.support.waiting import TIMEOUT, eventually


def ended() -> LegalLog:
    log = LegalLog(new_key())
    log.submit("hello")
    log.begin_attempt()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


async def forge(fleet: TaskStates, log: LegalLog, version: str = CONTRACT_VERSION) -> int:
    """Store an entry behind the log's end, as a hostile worker may; return its sequence."""
    log.append([log.status(WORKING)], state=WORKING)
    return await publish(fleet, log, *log.entries[-1], version)


async def publish(
    fleet: TaskStates, log: LegalLog, stamp: Stamp, body: bytes, version: str = CONTRACT_VERSION
) -> int:
    subject, headers = fleet.bus.subjects.event(log.key), stamp.headers(version)
    return (await fleet.bus.js.publish(subject, body, timeout=TIMEOUT, headers=headers)).seq


async def until_repaired(fleet: TaskStates, log: LegalLog, end: bytes, after: int) -> None:
    await eventually(
        lambda: is_repaired(fleet, log, end, after), "the end is the log's last entry again"
    )


async def is_repaired(fleet: TaskStates, log: LegalLog, end: bytes, after: int) -> bool:
    message = await last_raw(fleet.bus, log.key)
    assert message is not None
    last = from_leader(message)
    return last.sequence > after and last.entry is not None and last.entry.lines == [end]


async def test_an_entry_of_a_later_version_behind_an_end_closes_the_log_to_nobody(
    fleet: TaskStates,
) -> None:
    log = ended()
    whole, entries = folded(log), log.entries
    await fleet.start()
    await fleet.store(log)
    forged = await forge(fleet, log, "99")
    await until_repaired(fleet, log, entries[-1][1], forged)
    last = await last_entry(fleet.bus, log.key)
    assert last is not None
    read = [one async for some in replay(fleet.bus, log.key, 0, last.sequence) for one in some]
    assert [one.stamp for one in read] == [stamp for stamp, _ in entries]
    assert (await fleet.get(log.key)).task == whole


async def test_an_end_without_room_for_a_header_more_is_left_and_other_logs_are_repaired(
    fleet: TaskStates,
) -> None:
    large, other = ended(), ended()
    stamp, body = large.entries[-1]
    headers = "".join(f"{name}: {value}\r\n" for name, value in stamp.headers().items())
    room = fleet.bus.max_payload - len("NATS/1.0\r\n") - len(headers) - len("\r\n")
    del large.messages[-1]
    end = other.entries[-1][1]
    await fleet.start()
    await fleet.store(large)
    await publish(fleet, large, stamp, body[:-1] + b" " * (room - len(body)) + body[-1:])
    behind = await forge(fleet, large)
    await fleet.store(other)
    await until_repaired(fleet, other, end, await forge(fleet, other))
    last = await last_entry(fleet.bus, large.key)
    assert last is not None
    assert last.sequence == behind


async def test_what_a_killed_replica_has_not_repaired_the_next_one_does(
    fleet: TaskStates, tmp_path: Path
) -> None:
    logs = [ended() for _ in range(40)]
    ends = [log.entries[-1][1] for log in logs]
    replica = await fleet.spawn(tmp_path, "first")
    await asyncio.gather(*map(fleet.store, logs))
    forged = await asyncio.gather(*(forge(fleet, log) for log in logs))

    async def is_passed() -> bool:
        return (await fleet.reader.positions(fleet.ranges[:1]))[0] >= max(forged)

    await eventually(is_passed, "the view is behind all that was forged")
    replica.send_signal(signal.SIGKILL)
    each = list(zip(logs, ends, forged, strict=True))
    left = [one for one in each if not await is_repaired(fleet, *one)]
    assert left, "the first one was faster"
    await fleet.start()
    for one in left:
        await until_repaired(fleet, *one)

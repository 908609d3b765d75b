"""Opening runs: new ones, those that go on, and those that a client comes back to."""

from headrace_gateway.call import Call
from headrace_gateway.protocols.agui.attaching import attach
from headrace_gateway.protocols.agui.beginning import begin
from headrace_gateway.protocols.agui.history import past_of
from headrace_gateway.protocols.agui.named_run import NamedRun
from headrace_gateway.protocols.agui.opened import Opened
from headrace_gateway.protocols.agui.refusal import RunUnknown
from headrace_gateway.protocols.agui.run_frames import RunFrames
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.threads import Thread, ThreadRun
from headrace_gateway.services import Services


async def open_run(services: Services, call: Call, asked: RunInput) -> Opened:
    """Return the run that `asked` describes: begun or, with a cursor, come back to.

    Raises:
        RunRefused, A2AError, HeadraceError: as `Access.check`, `begin` and `attach`.
    """
    services.access.check(call.caller, call.agent, "SendStreamingMessage")
    if call.cursor and (found := await _known(services, call, asked)) is not None:
        return await attach(services, call, found)
    accepted = await begin(services, call, asked)
    return Opened(accepted.feed, accepted.log, RunFrames(accepted.generation))


async def open_again(services: Services, call: Call, named: NamedRun) -> Opened:
    """Return a run that has been started; without a run's id, the thread's newest.

    Raises:
        RunUnknown: the caller has no such run.
        HeadraceError: as `Access.check`, `Thread` and `attach`.
    """
    services.access.check(call.caller, call.agent, "SubscribeToTask")
    thread = Thread(services, call, named.thread)
    if named.run is not None:
        return await attach(services, call, await thread.find(named.run))
    newest = await thread.newest()
    earlier = await past_of(thread, before=newest)
    return await attach(services, call, newest, earlier.messages)


async def _known(services: Services, call: Call, asked: RunInput) -> ThreadRun | None:
    try:
        return await Thread(services, call, asked.thread).find(asked.run)
    except RunUnknown:
        # The client lost its connection before the run began.
        return None

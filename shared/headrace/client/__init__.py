"""A client of Headrace's gateways whose streams survive lost connections.

Example:
    async with Client("http://127.0.0.1:8080") as client:
        answer = await client.send("shop", "nails")
        async for event in client.stream("shop", "screws"):
            print(event.text, end="")
"""

try:
    from headrace.client.client import AgentInfo, Client
    from headrace.client.client_task import ClientTask
    from headrace.client.declarations import ClientDeclarations
    from headrace.client.errors import ClientError, ConnectionLost, RequestRefused
    from headrace.client.list_stream import ListEvent, ListStream
    from headrace.client.run_stream import RunEvent, RunStream
    from headrace.client.schedules import ClientSchedules
    from headrace.client.task_stream import StreamEvent, TaskStream
except ModuleNotFoundError as missing:
    library = str(missing.name).partition(".")[0]
    raise ImportError(f"{library} is not installed: pip install 'headrace[client]'") from missing

__all__ = [
    "AgentInfo",
    "Client",
    "ClientDeclarations",
    "ClientError",
    "ClientSchedules",
    "ClientTask",
    "ConnectionLost",
    "ListEvent",
    "ListStream",
    "RequestRefused",
    "RunEvent",
    "RunStream",
    "StreamEvent",
    "TaskStream",
]

"""A graph that stops before it pays, for a worker that is killed there (see `serving`)."""

from typing import Any, TypedDict, override

from langgraph.graph import END, START, StateGraph

from headrace import Agent
from headrace.adapters import langgraph_agent
from tests.integration.worker.adapters.file_saver import FileSaver
from tests.integration.worker.adapters.office import Office
from tests.support.gates import opened


class Order(TypedDict, total=False):
    """The graph's state."""

    price: int
    paid: str


class HeldSaver(FileSaver):
    """Goes on behind the breakpoint's checkpoint only when a file ``go`` is there."""

    @override
    async def aput(self, config: Any, checkpoint: Any, *args: Any) -> Any:
        kept = await super().aput(config, checkpoint, *args)
        values = checkpoint["channel_values"]
        if "price" in values and "paid" not in values:
            folder = self._file.parent
            (folder / "stopped").touch()
            await opened(folder / "go")
        return kept


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401  # the adapter's
    """Make the agent; it needs no model."""
    del url

    def look(_: Order) -> Order:
        return {"price": 3}

    async def pay(order: Order) -> Order:
        return {"paid": await office.refund("A1", order["price"])}

    graph: Any = StateGraph(Order)
    graph.add_sequence([look, pay])
    graph.add_edge(START, "look")
    graph.add_edge("pay", END)
    saver = HeldSaver(office.folder / "checkpoints")
    made = graph.compile(checkpointer=saver, interrupt_before=["pay"])
    given: Any = {"name": "g", "memory": "task", "input_of": lambda _: {}, **options}
    return langgraph_agent(made, output="paid", **given)

"""A LangGraph graph that asks a person for approval, served unchanged.

From this folder: ``headrace dev --agents graph_approval:refunds``. Needs ``headrace[langgraph]``.
"""

from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from headrace.adapters import langgraph_agent


def check(state: MessagesState) -> MessagesState:
    """Check the order."""
    get_stream_writer()({"checking": state["messages"][-1].text})
    return {"messages": [AIMessage("The order is fine. ")]}


def decide(state: MessagesState) -> MessagesState:  # noqa: ARG001  # the name is the graph's
    """Ask a person for a decision."""
    answer = interrupt({"question": "Refund it?"})
    return {"messages": [AIMessage("Refunded." if answer == "yes" else "Not refunded.")]}


graph = StateGraph(MessagesState)
graph.add_node("check", check)
graph.add_node("decide", decide)
graph.add_edge(START, "check")
graph.add_edge("check", "decide")
graph.add_edge("decide", END)

# The graph's state is in the fleet: the answer may come through another worker, or weeks later.
refunds = langgraph_agent(graph.compile(), name="refunds")

"""Demo agents without a model, one for each building block of an AG-UI user interface.

``headrace dev`` serves them together with `echo`, `assistant` and `counter` of `headrace.demo`.
Each module is a starting point for an agent of its own; docs/agui.md suggests prompts.
"""

from headrace import Agents
from headrace.demo import agents as plain
from headrace_dojo.agentic_chat import agentic_chat
from headrace_dojo.agentic_generative_ui import agentic_generative_ui
from headrace_dojo.backend_tool_rendering import backend_tool_rendering
from headrace_dojo.background_activity import background_activity
from headrace_dojo.error_flow import error_flow
from headrace_dojo.human_in_the_loop import human_in_the_loop
from headrace_dojo.interrupt import interrupt
from headrace_dojo.multimodal import multimodal
from headrace_dojo.orders import orders, stock
from headrace_dojo.predictive_state_updates import predictive_state_updates
from headrace_dojo.reasoning import reasoning
from headrace_dojo.research import planner, research, researcher, writer
from headrace_dojo.shared_state import shared_state
from headrace_dojo.subagents import subagents
from headrace_dojo.surfaces import surfaces
from headrace_dojo.tool_based_generative_ui import tool_based_generative_ui

agents = Agents(
    [
        *plain,
        agentic_chat,
        agentic_generative_ui,
        background_activity,
        backend_tool_rendering,
        error_flow,
        human_in_the_loop,
        interrupt,
        multimodal,
        orders,
        planner,
        predictive_state_updates,
        reasoning,
        research,
        researcher,
        shared_state,
        stock,
        subagents,
        surfaces,
        tool_based_generative_ui,
        writer,
    ]
)

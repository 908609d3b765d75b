"""What AG-UI's 0.x documents and 1.0 ask of a server, and the tests that show it here.

`docs/conformance.md` has this as tables. A test is named as `folder/module.py::test_name`; a row
whose item is a name of the protocol's needs a test that has that name in what it looks at.
"""

from typing import NamedTuple

_UNIT = "unit/gateway/protocols/agui"
_WIRE = "integration/gateway/protocols/agui"
_LIFECYCLE = f"{_UNIT}/test_lifecycle.py"
_TOOLS = f"{_UNIT}/test_tool_calls.py"
_STATE = f"{_UNIT}/test_state_and_activities.py"
_SUBAGENTS = f"{_UNIT}/test_subagents.py"
_THINKING = f"{_UNIT}/test_thinking.py"
_INPUT = f"{_UNIT}/test_run_input.py"
_ANY = f"{_UNIT}/test_any_log.py"

_DEMO = "e2e/test_agui_demo_agents.py::test_each_shows_its_building_block"
_CLIENT = "e2e/test_agui_client.py::test_the_assistant_thinks_calls_a_tool_and_answers"
_ENCODED = f"{_WIRE}/test_binary.py::test_every_event_is_encoded_as_the_official_encoder_does"
_SPAN = f"{_UNIT}/test_reasoning.py::test_a_block_of_thinking_is_a_span_with_one_message"
_CALL = f"{_TOOLS}::test_a_call_ends_with_its_arguments_and_its_result_comes_later"
_BESIDE = f"{_INPUT}::test_what_else_the_client_sent_is_kept_beside_it"
_ROLES = f"{_INPUT}::test_all_seven_roles_are_taken"
_CHUNKED = "rendered as start, content and end; encoded"


class Item(NamedTuple):
    """One row."""

    name: str
    """A name of the protocol's, or a sentence."""
    tests: tuple[str, ...]
    remark: str = ""
    is_name: bool = True


def _says(sentence: str, *tests: str) -> Item:
    return Item(sentence, tests, is_name=False)


def _is(name: str, *tests: str, remark: str = "") -> Item:
    return Item(name, tests, remark)


ITEMS: dict[str, list[Item]] = {
    "Lifecycle events": [
        _is(
            "RUN_STARTED",
            f"{_LIFECYCLE}::test_a_run_starts_with_the_clients_ids_and_the_protocols_version",
            _CLIENT,
        ),
        _is(
            "RUN_FINISHED",
            f"{_LIFECYCLE}::test_completed_is_success",
            f"{_LIFECYCLE}::test_waiting_is_an_interrupt",
            f"{_LIFECYCLE}::test_canceled_is_an_outcome",
            _CLIENT,
            remark="with outcome success, interrupt, cancelled",
        ),
        _is(
            "RUN_ERROR",
            f"{_LIFECYCLE}::test_failure_and_rejection_are_errors",
            f"{_WIRE}/test_runs.py::test_rejection_and_failure_are_run_errors",
        ),
        _is("STEP_STARTED", f"{_STATE}::test_steps_begin_once_and_end", _DEMO),
        _is("STEP_FINISHED", f"{_STATE}::test_steps_begin_once_and_end"),
    ],
    "Text message events": [
        _is(
            "TEXT_MESSAGE_START",
            f"{_WIRE}/test_attaching.py::test_with_its_cursor_a_client_goes_on_elsewhere",
        ),
        _is(
            "TEXT_MESSAGE_CONTENT",
            "e2e/test_agui_stop.py::test_it_sees_the_run_cancelled_and_runs_the_next_one",
        ),
        _is(
            "TEXT_MESSAGE_END",
            f"{_LIFECYCLE}::test_what_is_open_ends_before_an_error_too",
        ),
        _is("TEXT_MESSAGE_CHUNK", _ENCODED, remark=_CHUNKED),
    ],
    "Tool call events": [
        _is("TOOL_CALL_START", _CALL),
        _is("TOOL_CALL_ARGS", _CALL, f"{_TOOLS}::test_arguments_stream_until_the_block_ends"),
        _is("TOOL_CALL_END", _CALL),
        _is("TOOL_CALL_RESULT", _CALL, _DEMO),
        _is("TOOL_CALL_CHUNK", _ENCODED, remark=_CHUNKED),
    ],
    "Reasoning events": [
        _is("REASONING_START", _SPAN, _DEMO),
        _is("REASONING_MESSAGE_START", _SPAN),
        _is("REASONING_MESSAGE_CONTENT", _SPAN),
        _is("REASONING_MESSAGE_END", _SPAN),
        _is("REASONING_MESSAGE_CHUNK", _ENCODED, remark=_CHUNKED),
        _is("REASONING_END", _SPAN),
        _is(
            "REASONING_ENCRYPTED_VALUE",
            f"{_TOOLS}::test_a_sealed_call_carries_its_value",
            _DEMO,
        ),
    ],
    "State, message and activity events": [
        _is("STATE_SNAPSHOT", f"{_STATE}::test_state_is_sent_whole_or_as_a_patch", _DEMO),
        _is(
            "STATE_DELTA",
            f"{_STATE}::test_state_is_sent_whole_or_as_a_patch",
            f"{_STATE}::test_a_patch_that_does_not_fit_is_reported_and_changes_nothing",
            _DEMO,
        ),
        _is(
            "MESSAGES_SNAPSHOT",
            f"{_UNIT}/test_messages.py::test_a_message_is_rendered_unchanged_and_ends_open_items",
            "e2e/test_agui_comes_back.py::test_it_holds_the_same_as_if_it_had_stayed",
        ),
        _is(
            "ACTIVITY_SNAPSHOT",
            f"{_STATE}::test_a_file_is_an_activity_that_holds_the_artifact",
            _DEMO,
        ),
        _is(
            "ACTIVITY_DELTA",
            f"{_STATE}::test_what_is_appended_to_an_artifact_is_a_patch",
            _DEMO,
        ),
    ],
    "Special events": [
        _is(
            "RAW",
            f"{_STATE}::test_custom_and_raw_events_pass_through",
            f"{_UNIT}/test_raw.py::test_each_event_of_the_log_leads_what_it_becomes",
            remark="agents' own, and the log's events on request",
        ),
        _is("CUSTOM", f"{_STATE}::test_custom_and_raw_events_pass_through"),
    ],
    "Subagent events (1.0)": [
        _is(
            "SUBAGENT_STARTED",
            f"{_SUBAGENTS}::test_a_child_is_a_subagent_run_with_its_own_messages",
            f"{_SUBAGENTS}::test_an_agent_that_is_handed_over_to_is_a_subagent_run_and_its_answer_the_tasks",
            _DEMO,
            remark="of a child task, and of an agent that the task is handed over to",
        ),
        _is(
            "SUBAGENT_FINISHED",
            f"{_SUBAGENTS}::test_a_child_is_a_subagent_run_with_its_own_messages",
            _DEMO,
        ),
        _is("SUBAGENT_ERROR", f"{_SUBAGENTS}::test_a_childs_child_is_nested_in_it"),
    ],
    "Deprecated events, on request": [
        _is(name, f"{_THINKING}::test_they_have_the_content_of_reasoning_events_without_its_name")
        for name in (
            "THINKING_START",
            "THINKING_END",
            "THINKING_TEXT_MESSAGE_START",
            "THINKING_TEXT_MESSAGE_CONTENT",
            "THINKING_TEXT_MESSAGE_END",
        )
    ],
    "Serialization": [
        _says(
            "`type` in SCREAMING_SNAKE_CASE; fields as the protocol's models have them, and none "
            "beside",
            f"{_ANY}::test_a_client_accepts_the_stream_of_any_log",
        ),
        _is("timestamp", f"{_LIFECYCLE}::test_times_are_those_of_the_log"),
        _is("rawEvent", _ENCODED, remark="encoded; agents' own come as RAW"),
        _says(
            "no `eventId`: the cursor is the frame's `id`",
            f"{_WIRE}/test_runs.py::test_every_frame_has_a_cursor_of_its_own",
        ),
        _says(
            "protobuf, byte by byte as @ag-ui/encoder's, of all 31 types",
            _ENCODED,
            f"{_WIRE}/test_binary.py::test_every_type_of_the_protocol_is_among_them",
        ),
        _says(
            "backward compatibility: 0.0.53 and 0.0.59",
            "e2e/test_agui_older_clients.py::test_it_drives_every_demo_agent",
        ),
        _is(
            "protocolVersion",
            f"{_LIFECYCLE}::test_a_run_starts_with_the_clients_ids_and_the_protocols_version",
            remark="written and read",
        ),
    ],
    "Message roles and structures": [
        *(
            _is(name, _ROLES)
            for name in (
                "user",
                "assistant",
                "system",
                "developer",
                "tool",
                "activity",
                "reasoning",
            )
        ),
        _is("encryptedValue", f"{_TOOLS}::test_a_sealed_call_carries_its_value"),
        _says(
            "content as a string or as parts: text, image, audio, video, document, by data, URL or "
            "file",
            f"{_INPUT}::test_the_users_message_can_be_returned_unchanged",
            f"{_INPUT}::test_parts_of_0_x_clients_become_todays",
        ),
        _says(
            "`metadata` of messages (a field of 1.0)",
            f"{_INPUT}::test_metadata_of_messages_is_kept",
        ),
        _says(
            "ToolCall: `type: function`, nested `function`, arguments as a JSON string",
            f"{_TOOLS}::test_calls_of_one_turn_are_made_by_one_message",
            f"{_ANY}::test_the_fold_knows_what_the_client_holds",
        ),
    ],
    "Transport": [
        _says(
            "POST with a RunAgentInput, a stream of server-sent events back",
            f"{_WIRE}/test_runs.py::test_a_run_is_streamed_as_the_client_wants_it",
        ),
        _says(
            "`/api/agent`",
            f"{_WIRE}/test_runs.py::test_the_default_agent_has_a_short_path",
        ),
        _says(
            "WebSocket and the binary form as further transports",
            f"{_WIRE}/test_run_socket.py::test_one_socket_serves_one_run_after_the_other",
            f"{_WIRE}/test_binary.py::test_a_run_is_streamed_in_it_to_its_caller",
            "e2e/test_agui_demo_agents.py::test_every_transport_sends_the_same",
        ),
        _says(
            "text and arguments are streamed",
            "e2e/test_agui_client.py::test_chunks_arrive_as_they_are_made",
            f"{_TOOLS}::test_arguments_stream_until_the_block_ends",
        ),
    ],
    "RunAgentInput": [
        _is(
            "threadId",
            f"{_WIRE}/test_runs.py::test_runs_of_one_thread_share_its_context",
        ),
        _is(
            "runId",
            f"{_WIRE}/test_sent_again.py::test_another_request_may_not_use_the_runs_id",
        ),
        *(
            _is(name, _BESIDE)
            for name in ("parentRunId", "state", "tools", "context", "forwardedProps")
        ),
        _is("messages", f"{_INPUT}::test_the_last_user_message_is_the_agents_input"),
        _is(
            "resume",
            f"{_INPUT}::test_answers_to_interrupts_are_the_message",
            f"{_WIRE}/test_humans.py::test_an_answer_goes_on_with_the_task_that_requested_input",
        ),
        _says(
            "malformed (each field), unknown agent, media types, oversized frame: an error before "
            "the stream",
            f"{_INPUT}::test_a_malformed_field_is_named_with_its_rule",
            f"{_WIRE}/test_bad_input.py::test_a_malformed_input_is_named_before_a_stream_begins",
            f"{_WIRE}/test_bad_input.py::test_an_unknown_agent_is_not_found",
            f"{_WIRE}/test_bad_input.py::test_media_that_the_agent_does_not_take_is_refused",
            f"{_WIRE}/test_bad_input.py::test_an_oversized_frame_closes_the_socket_and_gives_the_reason",
        ),
        _says(
            "a `resume` that does not match",
            f"{_WIRE}/test_humans.py::test_a_resume_that_does_not_match_is_refused_before_the_stream",
        ),
    ],
    "Capability discovery": [
        _says(
            "identity, transport, tools, output, state, multiAgent, reasoning, multimodal, "
            "execution, humanInTheLoop, custom: each may be declared, and nothing else",
            f"{_UNIT}/test_capabilities.py::test_an_agent_may_declare_what_the_protocol_has_and_nothing_else",
            f"{_UNIT}/test_capabilities.py::test_every_demo_agents_are_of_the_protocols_shape",
        ),
        _says(
            "tools, output, humanInTheLoop and multiAgent of other frameworks' agents are declared "
            "by what these are",
            "unit/worker/adapters/test_declared_capabilities.py::test_an_agent_of_the_openai_sdk_states_what_it_has",
            "unit/worker/adapters/test_declared_capabilities.py::test_an_agent_of_pydantic_ai_states_what_it_has",
            "unit/worker/adapters/test_declared_capabilities.py::test_a_graph_may_interrupt",
        ),
    ],
    "Extensions, errors, event streams": [
        _says(
            "what the protocol has no event for is CUSTOM, named `headrace.…`",
            f"{_UNIT}/test_attempts.py::test_what_the_dead_attempt_emitted_is_taken_back",
            f"{_STATE}::test_a_patch_that_does_not_fit_is_reported_and_changes_nothing",
        ),
        _says(
            "a run always ends with RUN_FINISHED or RUN_ERROR, also where its log is lost",
            f"{_ANY}::test_a_run_whose_log_breaks_off_still_ends_whole",
            f"{_WIRE}/test_runs.py::test_a_log_that_is_lost_ends_the_run_with_an_error",
        ),
        _says(
            "compaction of event streams",
            f"{_WIRE}/test_attaching.py::test_a_threads_past_is_kept_compact",
        ),
        _says(
            "event streams are kept and restored: with a cursor, and without",
            f"{_WIRE}/test_attaching.py::test_with_its_cursor_a_client_goes_on_elsewhere",
            f"{_WIRE}/test_attaching.py::test_without_a_past_a_client_joins_with_the_words_so_far",
            "e2e/test_agui_comes_back.py::test_it_holds_the_same_as_if_it_had_stayed",
        ),
        _says(
            "a run sent again joins it: at once, later, elsewhere, with its gateway killed under "
            "the official client",
            f"{_WIRE}/test_sent_again.py::test_a_repeated_request_is_streamed_from_the_beginning_and_runs_once",
            f"{_WIRE}/test_sent_again.py::test_over_other_transports_it_is_the_same_run",
            "e2e/test_agui_sent_again.py::test_a_run_whose_gateway_was_killed_is_joined_by_a_repeated_request",
        ),
    ],
    "Conformance": [
        _says(
            "every demo agent over every transport, before the official client",
            "e2e/test_agui_demo_agents.py::test_every_stream_keeps_every_rule",
            "e2e/test_agui_demo_agents.py::test_every_transport_sends_the_same",
        ),
        _says(
            "drawn logs: the official client holds the fold's state; resuming after any frame "
            "equals the uncut stream",
            f"{_WIRE}/test_official_client.py::test_it_holds_what_the_fold_states_and_complains_of_nothing",
            f"{_ANY}::test_resuming_after_any_frame_equals_the_uncut_stream",
        ),
    ],
}


_EVENT_TABLES = (
    "Lifecycle events",
    "Text message events",
    "Tool call events",
    "Reasoning events",
    "State, message and activity events",
    "Special events",
    "Deprecated events, on request",
)
_POST = "POST with a RunAgentInput, a stream of server-sent events back"
_DECLARES = (
    "identity, transport, tools, output, state, multiAgent, reasoning, multimodal, execution, "
    "humanInTheLoop, custom: each may be declared, and nothing else"
)
_PARTS = (
    "content as a string or as parts: text, image, audio, video, document, by data, URL or file"
)
_METADATA = "`metadata` of messages (a field of 1.0)"
_OWN = "what the protocol has no event for is CUSTOM, named `headrace.…`"
_AS_THEY_COME = "text and arguments are streamed"

ANALYSIS: dict[str, tuple[str, ...]] = {
    "1.1 Missing Event Types": _EVENT_TABLES,
    "1.2 Event Serialization Format Mismatch": ("Serialization",),
    "2.1 Missing Message Roles": ("Message roles and structures",),
    "2.2 Message Structure Differences": ("Message roles and structures",),
    "2.3 ToolCall Structure Mismatch": (
        "ToolCall: `type: function`, nested `function`, arguments as a JSON string",
    ),
    "3.1 HTTP/SSE Endpoint": (_POST,),
    "3.2 RunAgentInput": ("RunAgentInput",),
    "3.3 Tool Definition": ("tools",),
    "3.4 Context": ("context",),
    "4. CAPABILITY DISCOVERY": ("Capability discovery",),
    "5. ADDITIONAL FEATURES NOT IN SPEC": (_OWN,),
    "6. VERSION COMPATIBILITY": (
        "protocolVersion",
        "protobuf, byte by byte as @ag-ui/encoder's, of all 31 types",
        "backward compatibility: 0.0.53 and 0.0.59",
        "Deprecated events, on request",
    ),
    "Zero interoperability": ("Conformance",),
    "No standard streaming": ("Text message events", _AS_THEY_COME),
    "No run lifecycle": ("Lifecycle events",),
    "Missing tool call streaming": ("TOOL_CALL_ARGS", _AS_THEY_COME),
    "No reasoning support": ("Reasoning events",),
    "No capability discovery": (_DECLARES,),
    "No multimodal messages": (_PARTS,),
    "Missing message roles": ("developer", "tool", "activity", "reasoning"),
    "No activity events": ("ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"),
    "No event compaction/serialization": (
        "compaction of event streams",
        "event streams are kept and restored: with a cursor, and without",
    ),
    "metadata field on messages": (_METADATA,),
    "Extra": ("no `eventId`: the cursor is the frame's `id`",),
    "P1.1 Adopt the official Rust SDK types": ("Message roles and structures",),
    "P1.2 Implement all 32 spec event types": _EVENT_TABLES,
    "P1.3 Implement RunAgentInput": ("RunAgentInput", _POST),
    "P2.1 Add HTTP/SSE transport": ("Transport",),
    "P2.2 Add capability discovery": ("Capability discovery",),
    "P3.1 Implement Start→Content→End streaming for text": ("Text message events",),
    "P3.2 Implement streaming tool calls": ("Tool call events", _AS_THEY_COME),
    "P4.1 Migrate custom events to CUSTOM event type": (_OWN,),
    "P4.2 Map existing features to spec patterns": (
        "STEP_STARTED",
        "ACTIVITY_SNAPSHOT",
        "STATE_SNAPSHOT",
    ),
    "P5.1 Add protocol conformance tests": ("Conformance", "Serialization"),
}
"""The drift analysis, line by line: the tables or the rows of tables that answer each of them."""

ANALYSIS_NOT_MET = {
    "P5.2 Update frontend TypeScript types": "Files of another project. The official client has "
    "its own types, and what is sent is checked against them.",
}
"""Lines that are not this project's, with the reason."""


EVENTS_OF_0_X = frozenset(
    [
        "ACTIVITY_DELTA",
        "ACTIVITY_SNAPSHOT",
        "CUSTOM",
        "MESSAGES_SNAPSHOT",
        "RAW",
        "REASONING_ENCRYPTED_VALUE",
        "REASONING_END",
        "REASONING_MESSAGE_CHUNK",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_MESSAGE_START",
        "REASONING_START",
        "RUN_ERROR",
        "RUN_FINISHED",
        "RUN_STARTED",
        "STATE_DELTA",
        "STATE_SNAPSHOT",
        "STEP_FINISHED",
        "STEP_STARTED",
        "TEXT_MESSAGE_CHUNK",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TEXT_MESSAGE_START",
        "THINKING_END",
        "THINKING_START",
        "THINKING_TEXT_MESSAGE_CONTENT",
        "THINKING_TEXT_MESSAGE_END",
        "THINKING_TEXT_MESSAGE_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_CHUNK",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TOOL_CALL_START",
    ]
)
"""What AG-UI's last 0.x had."""

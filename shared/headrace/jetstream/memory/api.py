"""JetStream's API in memory: requests on streams and consumers."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from headrace.jetstream.errors import ErrorCode
from headrace.jetstream.headers import (
    PENDING_MATCHES,
    PREVIOUS,
    SEQUENCE,
    STREAM,
    SUBJECT,
    TIME,
    UP_TO,
)
from headrace.jetstream.memory.consumer import MemoryConsumer, MessageSink
from headrace.jetstream.memory.stream import (
    ApiRefusal,
    MemoryStream,
    StoredMessage,
    not_found,
    stamp,
)
from headrace.jetstream.memory.wire import Publication, status, with_headers

type Json = dict[str, Any]

API = "$JS.API."
ACKS = "$JS.ACK."

_PLACED = 2


class MemoryJetStream:
    """All streams of a server, and their consumers."""

    def __init__(self, sink: MessageSink, now: Callable[[], datetime]) -> None:
        """Send through `sink`; messages are stored at `now()`."""
        self._sink, self._now = sink, now
        self._streams: dict[str, MemoryStream] = {}
        self._consumers: dict[str, dict[str, MemoryConsumer]] = {}
        self._stream_requests: dict[str, Callable[[MemoryStream, Json], Json]] = {
            "STREAM.INFO": MemoryStream.info,
            "STREAM.MSG.GET": lambda stream, query: {"message": stream.get(query).to_json()},
            "STREAM.MSG.DELETE": _delete,
            "STREAM.PURGE": _purge,
            "CONSUMER.LIST": self._list,
            "CONSUMER.NAMES": self._names,
        }

    def stream_for(self, subject: str) -> MemoryStream | None:
        """Return the stream that stores messages on `subject`."""
        return next((one for one in self._streams.values() if one.takes(subject)), None)

    def store(self, stream: MemoryStream, publication: Publication) -> Json:
        """Store a message, republish and deliver it; return JetStream's acknowledgement."""
        try:
            stored = stream.store(publication.subject, publication.block, publication.data)
        except ApiRefusal as refusal:
            return {"error": refusal.error}
        self._republish(stream, stored)
        for consumer in self._consumers[stream.config["name"]].values():
            consumer.deliver()
        return {"stream": stream.config["name"], "seq": stored.sequence}

    def acknowledge(self, subject: str, answer: bytes) -> None:
        """Process a receiver's acknowledgement of a delivered message."""
        stream, name, _, sequence, *_ = subject.removeprefix(ACKS).split(".")
        consumer = self._consumers.get(stream, {}).get(name)
        if consumer is not None:
            consumer.acknowledge(int(sequence), answer)

    def expire(self) -> None:
        """End all leases: redeliver every message that is not acknowledged."""
        for consumers in self._consumers.values():
            for consumer in consumers.values():
                consumer.expire()

    def request(self, request: Publication) -> None:
        """Handle a request to the API."""
        operation = request.subject.removeprefix(API)
        query = orjson.loads(request.data or b"{}")
        try:
            answer = self._answer(operation, query, request.reply)
        except ApiRefusal as refusal:
            answer = {"error": refusal.error}
        if answer is not None:
            self._sink.send(request.reply, request.reply, "", b"", orjson.dumps(answer))

    def _answer(self, operation: str, query: Json, reply: str) -> Json | None:
        for prefix, carry_out in self._stream_requests.items():
            if operation.startswith(f"{prefix}."):
                return carry_out(self._stream(operation.removeprefix(f"{prefix}.")), query)
        if operation.startswith("STREAM.CREATE."):
            return self._create_stream(query)
        if operation.startswith("DIRECT.GET."):
            self._get_directly(self._stream(operation.removeprefix("DIRECT.GET.")), query, reply)
            return None
        return self._of_consumer(operation, query, reply)

    def _of_consumer(self, operation: str, query: Json, reply: str) -> Json | None:
        prefix, stream, name = operation.rsplit(".", _PLACED)
        match prefix:
            case "CONSUMER.DURABLE.CREATE" | "CONSUMER.CREATE":
                return self._create_consumer(self._stream(stream), name, query)
            case "CONSUMER.INFO":
                return self._consumer(stream, name).info()
            case "CONSUMER.DELETE":
                self._consumers.get(stream, {}).pop(name, None)
                return {"success": True}
            case "CONSUMER.MSG.NEXT":
                self._consumer(stream, name).pull(reply, query)
                return None
            case _:
                raise not_found(ErrorCode.STREAM_NOT_FOUND, f"{prefix} in memory")

    def _stream(self, name: str) -> MemoryStream:
        try:
            return self._streams[name]
        except KeyError:
            raise not_found(ErrorCode.STREAM_NOT_FOUND, "stream") from None

    def _consumer(self, stream: str, name: str) -> MemoryConsumer:
        try:
            return self._consumers[stream][name]
        except KeyError:
            raise not_found(ErrorCode.CONSUMER_NOT_FOUND, "consumer") from None

    def _create_stream(self, config: Json) -> Json:
        stream = self._streams.setdefault(config["name"], MemoryStream(config, self._now))
        self._consumers.setdefault(config["name"], {})
        return stream.info({})

    def _create_consumer(self, stream: MemoryStream, name: str, query: Json) -> Json:
        consumers = self._consumers[stream.config["name"]]
        if name not in consumers:
            consumers[name] = MemoryConsumer(name, query["config"], stream, self._sink)
        return consumers[name].info()

    def _list(self, stream: MemoryStream, query: Json) -> Json:
        found = [one.info() for one in self._consumers[stream.config["name"]].values()]
        return {"total": len(found), "consumers": found[query.get("offset", 0) :]}

    def _names(self, stream: MemoryStream, query: Json) -> Json:
        found = list(self._consumers[stream.config["name"]])
        return {"total": len(found), "consumers": found[query.get("offset", 0) :]}

    def _republish(self, stream: MemoryStream, stored: StoredMessage) -> None:
        declared = stream.config.get("republish")
        if not declared:
            return
        source, target = declared["src"].rstrip(">"), declared["dest"].rstrip(">")
        to = target + stored.subject.removeprefix(source)
        block = _placed(stream, stored, stored.previous)
        self._sink.send(to, to, "", block, stored.data)

    def _get_directly(self, stream: MemoryStream, query: Json, reply: str) -> None:
        if (subjects := query.get("multi_last")) is not None:
            lasts = {one.subject: one for subject in subjects for one in stream.matching(subject)}
            found = sorted(lasts.values(), key=lambda one: one.sequence)
        else:
            found = list(stream.matching(query["next_by_subj"], query.get("seq", 0)))
        some = found[: query.get("batch", len(found))]
        if not found:
            self._sink.send(reply, reply, "", status(404, "No Results"), b"")
            return
        before = 0
        for one in some:
            self._sink.send(reply, reply, "", _placed(stream, one, before), one.data)
            before = one.sequence
        headers = {
            PENDING_MATCHES: str(len(found) - len(some)),
            PREVIOUS: str(before),
            UP_TO: str(stream.last),
        }
        self._sink.send(reply, reply, "", status(204, "EOB", headers), b"")


def _placed(stream: MemoryStream, one: StoredMessage, previous: int) -> bytes:
    """Return the message's header block with its place and time, in nats-server's order."""
    headers = {
        STREAM: stream.config["name"],
        SUBJECT: one.subject,
        SEQUENCE: str(one.sequence),
        TIME: stamp(one.time),
        PREVIOUS: str(previous),
    }
    return with_headers(one.block, headers)


def _delete(stream: MemoryStream, query: Json) -> Json:
    if not stream.remove(query["seq"]):
        raise not_found(ErrorCode.SEQUENCE_NOT_FOUND, "message")
    return {"success": True}


def _purge(stream: MemoryStream, query: Json) -> Json:
    return {"success": True, "purged": stream.purge(query["filter"], query.get("seq", 0))}

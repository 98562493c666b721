"""A server on loopback that answers as a script says, in the languages of OpenAI, Anthropic and Google.

    with serving(Good("hello")) as server:
        read_config(None, [f"{server.url}#scripted"])

A script is one behaviour, a list of them (the last goes on for ever), or a function from what was asked to one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Seen:
    """One request, as it came in."""

    number: int  # from 0
    path: str
    headers: dict[str, str]  # names in small letters
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All that was said, in whichever language, for a script to look into."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body.get("messages") or self.body.get("input") or self.body.get("contents") or []

    @property
    def prompt(self) -> str:
        """The last thing that the user said."""
        content = self.messages[-1].get("content") or self.messages[-1].get("parts")
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@dataclass(frozen=True)
class Good:
    """An answer. `text` may be a function of what was asked; `delay` makes it slow."""

    text: str | Callable[[Seen], str] = "good"
    delay: float = 0.0
    tokens: tuple[int, int] | None = (100, 50)  # None: a server that does not count
    cached: int = 0  # as chat servers say it
    finish: str = "stop"

    def said(self, seen: Seen) -> str:
        return self.text if isinstance(self.text, str) else self.text(seen)


@dataclass(frozen=True)
class Truncated(Good):
    text: str | Callable[[Seen], str] = "__global__ void k("
    finish: str = "length"


@dataclass(frozen=True)
class Refusing(Good):
    """By `refusal`, as models do, or by `content_filter`, as providers do."""

    text: str | Callable[[Seen], str] = "I cannot help with that."
    finish: str = "refusal"


@dataclass(frozen=True)
class Status:
    """An HTTP error: 429 with Retry-After, 500, 401, ..."""

    code: int
    retry_after: float | None = None
    message: str = "scripted"
    kind: str = "scripted_error"


@dataclass(frozen=True)
class BadBody:
    """200, and a body that is not JSON."""

    body: str = '{"choices": ['
    content_type: str = "application/json"


@dataclass(frozen=True)
class Dropped:
    """The connection is closed without a word."""


Behaviour = Good | Status | BadBody | Dropped
Script = Behaviour | Sequence[Behaviour] | Callable[[Seen], Behaviour]


@dataclass
class Server:
    url: str  # as an OpenAI-compatible server
    root: str  # for Anthropic and Google
    seen: list[Seen] = field(default_factory=list)
    most_at_once: int = 0


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    lock = threading.Lock()
    at_once = 0

    def behaviour(seen: Seen) -> Behaviour:
        if callable(script):
            return script(seen)
        return script[min(seen.number, len(script) - 1)] if isinstance(script, Sequence) else script

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            nonlocal at_once
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                seen = Seen(
                    len(server.seen), self.path, {name.lower(): value for name, value in self.headers.items()}, body
                )
                server.seen.append(seen)
                at_once += 1
                server.most_at_once = max(server.most_at_once, at_once)
            try:
                self._behave(behaviour(seen), seen)
            except (BrokenPipeError, ConnectionResetError):  # the client did not wait
                self.close_connection = True
            finally:
                with lock:
                    at_once -= 1

        def _behave(self, now: Behaviour, seen: Seen) -> None:
            match now:
                case Good():
                    time.sleep(now.delay)
                    self._reply(200, json.dumps(_language(seen.path)(now, seen)))
                case Status():
                    error = {"error": {"message": now.message, "type": now.kind, "code": now.kind}}
                    self._reply(now.code, json.dumps(error), retry_after=now.retry_after)
                case BadBody():
                    self._reply(200, now.body, now.content_type)
                case Dropped():
                    self.close_connection = True

        def _reply(
            self, code: int, body: str, content_type: str = "application/json", retry_after: float | None = None
        ) -> None:
            content = body.encode()
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            if retry_after is not None and retry_after == int(retry_after):
                self.send_header("Retry-After", f"{retry_after:.0f}")
            elif retry_after is not None:  # the standard knows whole seconds only
                self.send_header("retry-after-ms", f"{retry_after * 1000:g}")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    http = Quiet(("127.0.0.1", 0), Handler)
    root = f"http://127.0.0.1:{http.server_port}"
    server = Server(f"{root}/v1", root)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def _language(path: str) -> Callable[[Good, Seen], dict[str, Any]]:
    if path.endswith("/chat/completions"):
        return _chat
    if path.endswith("/responses"):
        return _responses
    if path.partition("?")[0].endswith("/v1/messages"):
        return _anthropic
    return _google


def _chat(now: Good, seen: Seen) -> dict[str, Any]:
    said = now.said(seen)
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if now.finish == "refusal":
        message = {"role": "assistant", "content": None, "refusal": said}
    finish = "stop" if now.finish == "refusal" else now.finish
    answer: dict[str, Any] = {
        "id": f"chatcmpl-{seen.number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": seen.body["model"],
        "provider": "scripted",  # as OpenRouter says it; others pass over it
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if now.tokens is not None:
        first, second = now.tokens
        answer["usage"] = {"prompt_tokens": first, "completion_tokens": second, "total_tokens": first + second}
        if now.cached:
            answer["usage"]["prompt_tokens_details"] = {"cached_tokens": now.cached}
    return answer


def _responses(now: Good, seen: Seen) -> dict[str, Any]:
    said = now.said(seen)
    content = {"type": "output_text", "text": said, "annotations": []}
    if now.finish == "refusal":
        content = {"type": "refusal", "refusal": said}
    incomplete = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(now.finish)
    first, second = now.tokens or (0, 0)
    return {
        "id": f"resp_{seen.number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": seen.body["model"],
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "output": [{"id": "msg", "type": "message", "role": "assistant", "status": "completed", "content": [content]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": first,
            "output_tokens": second,
            "total_tokens": first + second,
            "input_tokens_details": {"cached_tokens": first // 2},
            "output_tokens_details": {"reasoning_tokens": second // 2},
        },
    }


def _anthropic(now: Good, seen: Seen) -> dict[str, Any]:
    first, second = now.tokens or (0, 0)
    stop = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}.get(now.finish, now.finish)
    return {
        "id": f"msg_{seen.number}",
        "type": "message",
        "role": "assistant",
        "model": seen.body["model"],
        "content": [{"type": "text", "text": now.said(seen)}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": first, "output_tokens": second},
    }


def _google(now: Good, seen: Seen) -> dict[str, Any]:
    first, second = now.tokens or (0, 0)
    finish = {"stop": "STOP", "length": "MAX_TOKENS"}.get(now.finish, "SAFETY")
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": now.said(seen)}]}, "finishReason": finish, "index": 0}
        ],
        "modelVersion": "scripted",
        "responseId": f"google-{seen.number}",
        "usageMetadata": {
            "promptTokenCount": first,
            "candidatesTokenCount": second,
            "totalTokenCount": first + second,
        },
    }

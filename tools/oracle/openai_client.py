"""OpenAI's own client, as the judge of `memra batch`.

    openai_client.py requests > in.jsonl     the requests that the client sends, as a batch file
    openai_client.py check out.jsonl         gives the answers back to the client, and validates what it makes of them

Answers must fit the client's types strictly and have no field that those do not know; a refused request must raise the client's error for
its status, with the field's name. cmd/memra's TestTheRealClientReadsTheAnswers runs both, where MEMRA_OPENAI names a Python that has openai.
"""

import json
import sys

import httpx2 as httpx
import openai
from openai.types import Completion
from openai.types.chat import ChatCompletion

hi = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
chat, text = "chat", "text"
# What is asked of the client, and how it must end: None, or the field that is at fault.
requests = [
    (chat, dict(messages=hi, max_completion_tokens=5), None),
    (chat, dict(messages=hi, max_tokens=5, n=3, temperature=0.7, seed=7, top_p=0.9), None),
    (chat, dict(messages=hi, max_tokens=5, logprobs=True, top_logprobs=3, stop=["\n", "."]), None),
    (chat, dict(messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], max_tokens=3, user="me", metadata={"a": "b"}), None),
    (chat, dict(messages=hi, max_tokens=3, frequency_penalty=0, presence_penalty=0, logit_bias={}, response_format={"type": "text"}), None),
    (chat, dict(messages=hi, max_tokens=3, extra_body={"top_k": 5, "min_p": 0.1}), None),
    (text, dict(prompt="Then the", max_tokens=5, logprobs=4), None),
    (text, dict(prompt=["Then the", "The sea"], max_tokens=5, n=2, best_of=3, echo=False), None),
    (text, dict(prompt=[[5, 6], [7]], max_tokens=2, temperature=0), None),
    (text, dict(prompt="Then the", max_tokens=2, echo=True), None),
    (chat, dict(messages=hi, seed=-1), "seed"),
    (chat, dict(messages=[]), "messages"),
    (chat, dict(messages=hi, tools=[{"type": "function", "function": {"name": "f"}}]), "tools"),
    (chat, dict(messages=hi, extra_body={"frobnicate": 1}), "frobnicate"),
    (text, dict(prompt="a", stop=""), "stop"),
    (text, dict(prompt="a", temperature=-1), "temperature"),
]


def ask(kind, arguments, answer):
    """Lets the client send a request; answer makes the HTTP response of the HTTP request."""
    client = openai.OpenAI(api_key="none", base_url="http://memra.invalid/v1", max_retries=0, http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    create = client.chat.completions.create if kind == chat else client.completions.create
    return create(model="any", **arguments)


def write():
    for i, (kind, arguments, _) in enumerate(requests):
        def record(request):
            print(json.dumps({"custom_id": str(i), "method": request.method, "url": request.url.path, "body": json.loads(request.content)}))
            return httpx.Response(400, json={})

        try:
            ask(kind, arguments, record)
        except openai.BadRequestError:
            pass


def extras(model, path):
    """The fields of a model that its type does not know."""
    if isinstance(model, list):
        return [e for i, m in enumerate(model) for e in extras(m, f"{path}[{i}]")]
    if not hasattr(model, "model_fields_set"):
        return []
    found = [f"{path}.{name}" for name in model.model_extra or {}]
    return found + [e for name in type(model).model_fields for e in extras(getattr(model, name), f"{path}.{name}")]


def check(path):
    lines = [json.loads(line) for line in open(path, encoding="utf-8")]
    assert [line["custom_id"] for line in lines] == [str(i) for i in range(len(requests))], "custom_id"
    for i, ((kind, arguments, fault), line) in enumerate(zip(requests, lines)):
        assert line["error"] is None, line
        response = line["response"]
        reply = lambda _: httpx.Response(response["status_code"], json=response["body"])
        if fault:
            try:
                ask(kind, arguments, reply)
                raise SystemExit(f"request {i}: answered, want a refusal of {fault}")
            except openai.BadRequestError as e:
                assert e.param == fault and e.code and e.type == "invalid_request_error", f"request {i}: {e.param} {e.code} {e.type}"
            continue
        got = ask(kind, arguments, reply)
        strict = (ChatCompletion if kind == chat else Completion).model_validate_json(json.dumps(response["body"]), strict=True)
        assert got == strict, f"request {i}: the client reads {got}"
        assert not extras(got, "answer"), f"request {i}: unknown: {extras(got, 'answer')}"
        prompts = arguments["prompt"] if kind == text and isinstance(arguments["prompt"], list) else [None]
        assert len(got.choices) == len(prompts) * arguments.get("n", 1), f"request {i}: {len(got.choices)} choices"
        assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens
    print(f"openai {openai.__version__}: {len(lines)} answers read")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1] == "check" else write()

"""Writes chat/testdata/goldens.json: what transformers' apply_chat_template makes of every template and case; and
chat/jinja/testdata/snippets.json: what its Jinja environment makes of every line of snippets.txt beside it.

    python tools/oracle/chat.py chat

Needs transformers==5.24.0 and jinja2==3.1.6. The clock of strftime_now is frozen. Cases hold what a request may hold; a
golden is the text, or an error: {"raise": message} where the template itself refuses, {"fails": kind} where Python does.
"""

import datetime as real_datetime
import json
import pathlib
import sys

import jinja2
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

assert transformers.__version__ == "5.24.0", transformers.__version__
assert jinja2.__version__ == "3.1.6", jinja2.__version__

NOW = real_datetime.datetime(2025, 3, 4, 5, 6, 7)


class Frozen(real_datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = Frozen


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, name="weather", id="call00001"):
    return {"role": "tool", "name": name, "tool_call_id": id, "content": text}


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather at a place",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "A city, like Zürich"},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            },
            "required": ["city"],
        },
    },
}
# Key order, nesting, numbers, null, quotes and markup: what JSON inside a prompt must get right.
ODD = {
    "type": "function",
    "function": {
        "name": "z_odd",
        "description": 'Says "<hi> & \'bye\'"\nin two lines',
        "parameters": {
            "type": "object",
            "properties": {
                "z": {"type": "array", "items": {"type": "number"}, "minItems": 1},
                "a": {
                    "type": "object",
                    "description": "nested",
                    "properties": {"on": {"type": "boolean", "default": True}, "n": {"type": ["integer", "null"], "default": None}},
                    "required": ["on"],
                },
                "x": {"type": "number", "default": 1e-7, "maximum": 1.0, "minimum": -12345678901234567890},
            },
            "required": ["z", "a"],
        },
    },
}
BARE = {"type": "function", "function": {"name": "ping", "description": "No arguments", "parameters": {"type": "object", "properties": {}}}}

CHAT = [system("Be brief."), user("Hi"), assistant("Hello!"), user("2+2?")]
CALLED = [user("Weather in Bern?"), assistant("", tool_calls=[call("weather", {"city": "Bern", "unit": "C"})]), result('{"t": 7}')]

CASES = {
    "plain": dict(messages=[user("Hi")], add_generation_prompt=True),
    "plain, no prompt": dict(messages=[user("Hi"), assistant("Hello!")]),
    "system": dict(messages=[system("Be brief."), user("Hi")], add_generation_prompt=True),
    "turns": dict(messages=CHAT, add_generation_prompt=True),
    "developer": dict(messages=[{"role": "developer", "content": "Be brief."}, user("Hi")], add_generation_prompt=True),
    "spaces and markup": dict(messages=[system(" s \n"), user("\n <b>&\"é' \t"), assistant("  ok\n\n"), user("")], add_generation_prompt=True),
    "no thinking": dict(messages=[user("Hi")], add_generation_prompt=True, vars={"enable_thinking": False, "thinking": False, "reasoning_effort": "low"}),
    "thinking": dict(messages=[user("Hi")], add_generation_prompt=True, vars={"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    "reasoning": dict(messages=[user("2+2?"), assistant("4", reasoning_content="Add\nthem."), user("3+3?"), assistant("6", reasoning_content="Again.")]),
    "reasoning in the text": dict(messages=[user("2+2?"), assistant("<think>\nAdd.\n</think>\n\n4"), user("3+3?")], add_generation_prompt=True),
    "tools": dict(messages=[user("Weather?")], tools=[WEATHER], add_generation_prompt=True),
    "odd tools": dict(messages=[system("Use tools."), user("Go")], tools=[ODD, BARE], add_generation_prompt=True),
    "call": dict(messages=CALLED, tools=[WEATHER], add_generation_prompt=True),
    "call, null content": dict(messages=[user("Go"), assistant(None, tool_calls=[call("weather", {"city": "Bern"})])], tools=[WEATHER]),
    "call as JSON text": dict(messages=[user("Go"), assistant("", tool_calls=[call("weather", '{"city": "Bern"}')]), result("7")], tools=[WEATHER], add_generation_prompt=True),
    "two calls": dict(
        messages=[
            system("Use tools."),
            user("Both?"),
            assistant(
                "Looking.",
                reasoning_content="Two calls.",
                tool_calls=[
                    call("weather", {"city": "Zürich <b>\"", "unit": "F"}),
                    call("z_odd", {"z": [1, 2.5, -3e20], "a": {"on": True, "n": None}, "x": "1\n2"}, id="call00002"),
                ],
            ),
            result("7 °C"),
            result('{"ok": [true, null]}', name="z_odd", id="call00002"),
            assistant("Done."),
            user("Thanks"),
        ],
        tools=[WEATHER, ODD],
        add_generation_prompt=True,
    ),
    "parts": dict(messages=[system("Be brief."), {"role": "user", "content": [{"type": "text", "text": "A "}, {"type": "text", "text": "B"}]}], add_generation_prompt=True),
    "image": dict(messages=[{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]}], add_generation_prompt=True),
    "continued": dict(messages=[user("Count"), assistant("1, 2,")], continue_final_message=True),
    "continued, spaces": dict(messages=[user("Count"), assistant(" 1, 2, ")], continue_final_message=True),
    "two users": dict(messages=[user("a"), user("b")], add_generation_prompt=True),
    "assistant first": dict(messages=[assistant("a"), user("b")], add_generation_prompt=True),
    "unknown role": dict(messages=[user("a"), {"role": "critic", "content": "b"}], add_generation_prompt=True),
}


def render(template, case):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0}, "a")), bos_token="<BOS>", eos_token="<EOS>")
    try:
        return tokenizer.apply_chat_template(
            json.loads(json.dumps(case["messages"])),
            tools=case.get("tools"),
            chat_template=template,
            tokenize=False,
            add_generation_prompt=case.get("add_generation_prompt", False),
            continue_final_message=case.get("continue_final_message", False),
            **case.get("vars", {}),
        )
    except jinja2.exceptions.TemplateError as e:
        if type(e) is jinja2.exceptions.TemplateError:
            return {"raise": str(e.message)}
        return {"fails": type(e).__name__}
    except Exception as e:
        return {"fails": type(e).__name__}


def line(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# What the snippets see.
SNIPPET_VARS = {
    "s": "Hello, wide World",
    "e": "",
    "u": "Grüße 😀 <a&b>'\"\\",
    "n": 7,
    "neg": -7,
    "f": 2.5,
    "t": True,
    "z": None,
    "l": [3, 1, 2],
    "w": ["b", "A", "c", "a"],
    "d": {"b": 1, "A": [2, None], "items": "x"},
    "p": [{"k": "x", "v": 2}, {"k": "Y", "v": 1}, {"k": "x", "v": 0, "q": {"r": 5}}],
    "big": 123456789012345678901234567890,
    "lines": "one\n\ttwo \n\nthree",
}


def snippets(folder):
    out = []
    for source in (folder / "snippets.txt").read_text().split("\n"):
        if not source:
            continue
        source = source.replace("⏎", "\n")  # a line break inside a snippet
        try:
            got = chat_template_utils._compile_jinja_template(source).render(**json.loads(json.dumps(SNIPPET_VARS)))
        except Exception as e:
            got = {"fails": type(e).__name__}
        out.append(line([source, got]))
    (folder / "snippets.json").write_text('{"vars":' + line(SNIPPET_VARS) + ',"snippets":[\n' + ",\n".join(out) + "\n]}\n")


def main(folder):
    out = ["{", '"now":' + line(NOW.strftime("%Y-%m-%dT%H:%M:%SZ")) + ",", '"cases":{']
    out += [f"{line(name)}:{line(case)}," for name, case in CASES.items()]
    out[-1] = out[-1][:-1] + "},"
    out.append('"goldens":{')
    # Equal texts of one template are written once: a golden may be the name of the case it equals.
    for path in sorted(folder.glob("templates/*.jinja")):
        seen, goldens = {}, {}
        for name, case in CASES.items():
            got = render(path.read_text(), case)
            key = line(got)
            goldens[name] = {"as": seen[key]} if key in seen and len(key) > 40 else got
            seen.setdefault(key, name)
        out.append(f"{line(path.name.removesuffix('.jinja'))}:{line(goldens)},")
    out[-1] = out[-1][:-1] + "}}"
    (folder / "goldens.json").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) / "testdata")
    snippets(pathlib.Path(sys.argv[1]) / "jinja" / "testdata")

# SPDX-License-Identifier: Apache-2.0
"""Chat templates, written as those of the models are but in our own words, with what they make of messages."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from ggufmake import gguf  # noqa: E402

CHATML = """{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system
You are Nobody.<|im_end|>
' }}{% endif %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
ESCAPED = CHATML.replace("system\nYou are Nobody.<|im_end|>\n", "system\\nYou are Nobody.<|im_end|>\\n")
BARE = """{{ bos_token }}{% for m in messages %}\
{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] | trim + '<|im_end|>\\n' }}{% endfor %}\
{{ '<|im_start|>assistant\\n' }}"""
LLAMA3 = """{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}\
{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}\
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"""
LLAMA31 = """{{ bos_token }}{% if not date_string is defined %}{% set date_string = '26 Jul 2024' %}{% endif %}\
{% if messages[0]['role'] == 'system' %}{% set said = messages[0]['content'] | trim %}{% set messages = messages[1:] %}\
{% else %}{% set said = '' %}{% endif %}\
{{ '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\nToday Date: ' + date_string + '\\n\\n' }}\
{{ said + '<|eot_id|>' }}{% for m in messages %}\
{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}\
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"""
LLAMA32 = LLAMA31.replace("{% set date_string = '26 Jul 2024' %}", "{% set date_string = strftime_now('%d %b %Y') %}")
TEMPLATES = {"chatml": CHATML, "chatml escaped": ESCAPED, "chatml bare": BARE, "llama 3": LLAMA3, "llama 3.1": LLAMA31,
             "llama 3.2": LLAMA32}
DATE = "03 Mar 2026"

ASK, TOLD = [("user", " Hi?\n")], [("system", " Be brief. "), ("user", "안녕?"), ("assistant", "네."), ("user", "2+2")]
MESSAGES = {"asked": ASK, "told": TOLD}


def turns(before, behind, after, messages, strip):
    made = "".join(f"{before}{role}{behind}{text.strip() if strip else text}{after}" for role, text in messages)
    return f"{made}{before}assistant{behind}"


def chatml(messages, default, strip=False):
    said = [] if default is None or messages[0][0] == "system" else [("system", default)]
    return turns("<|im_start|>", "\n", "<|im_end|>\n", said + messages, strip)


def llama3(messages, date=None):
    if date:
        said = messages[0][1].strip() if messages[0][0] == "system" else ""
        head = f"Cutting Knowledge Date: December 2023\nToday Date: {date}\n\n{said}"
        messages = [("system", head)] + messages[messages[0][0] == "system":]
        # Only what was said is stripped: with nothing said, the blank line stays.
        first = f"<|start_header_id|>system<|end_header_id|>\n\n{head}<|eot_id|>"
        return "<s>" + first + turns("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", messages[1:], True)
    return "<s>" + turns("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", messages, True)


def expected(name, messages):
    return {"chatml": lambda m: chatml(m, "You are Nobody."), "chatml escaped": lambda m: chatml(m, "You are Nobody."),
            "chatml bare": lambda m: "<s>" + chatml(m, None, True), "llama 3": llama3, "llama 3.1": lambda m: llama3(m, "26 Jul 2024"),
            "llama 3.2": lambda m: llama3(m, DATE)}[name](messages)


def write(path, template):
    """A .gguf with a tokenizer and that template, or none."""
    values = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
              "tokenizer.ggml.tokens": ["a", "b", "<s>"], "tokenizer.ggml.token_type": ("i32", [1, 1, 3]),
              "tokenizer.ggml.merges": ("string", []), "tokenizer.ggml.bos_token_id": 2}
    if template is not None:
        values["tokenizer.chat_template"] = template
    pathlib.Path(path).write_bytes(gguf(values, {}))

"""The text: the Go standard library of GOROOT and the modules of modules.txt, cleaned, without what is held out.

Held out are whole packages of the standard library: of those that a program can import one in sixteen, by a hash of their paths. Of the rest, a file counts once: one whose long
lines are mostly lines of files before it is a copy, and one that shares a quarter of them with what is held out is left out too.
"""

import hashlib
import json
import lzma
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LARGEST = 200_000  # bytes of a file; beyond it are tables
HELD = 16  # one package in so many

LICENCES = {  # what the text of a licence has, its white space as single spaces
    "Apache-2.0": r"Apache License",
    "MIT": r"Permission is hereby granted, free of charge",
    "BSD-3-Clause": r"(?i)Redistribution and use in source and binary forms.*neither the names? ",
    "BSD-2-Clause": r"Redistribution and use in source and binary forms",
    "ISC": r"Permission to use, copy, modify, and.*with or without fee",
}


@dataclass(frozen=True)
class Document:
    path: str  # std/bufio/scan.go, or module@version/file.go
    text: str

    @property
    def often(self):
        """How many times it is read an epoch: the standard library and what its authors wrote beside it set the style."""
        return 2 if self.path.startswith(("std/", "golang.org/x/")) else 1


def go(*arguments):
    return subprocess.run(["go", *arguments], check=True, capture_output=True, text=True, cwd="/").stdout


def modules():
    """Fetches the modules and yields (path@version, folder) of each."""
    rows = [line.split() for line in (HERE / "modules.txt").read_text().splitlines() if not line.startswith("#")]
    found = json.JSONDecoder()
    text = go("mod", "download", "-json", *(f"{path}@{version}" for path, version, _, _ in rows)).lstrip()
    by_name = {}
    while text:
        row, end = found.raw_decode(text)
        by_name[row["Path"]], text = row, text[end:].lstrip()
    for path, version, licence, checksum in rows:
        row = by_name[path]
        if row["Sum"] != checksum:
            raise SystemExit(f"corpus: {path}@{version}: checksum {row['Sum']}, want {checksum} as in modules.txt")
        files = [f for f in Path(row["Dir"]).iterdir() if re.fullmatch(r"(?i)(licen[sc]e|copying)(\.(md|txt))?", f.name)]
        terms = re.sub(r"\s+", " ", files[0].read_text()) if files else ""
        for name in licence.split("+"):
            if not re.search(LICENCES[name], terms):
                raise SystemExit(f"corpus: {path}@{version}: its licence does not read like {name}; look at it, and correct modules.txt")
        yield f"{path}@{version}", Path(row["Dir"])


def sources(root, name, tests):
    """The Go files under a folder, without generated ones, tables, test data and copies of other modules."""
    for file in sorted(root.rglob("*.go")):
        inside = file.relative_to(root)
        if {"testdata", "vendor", "third_party", "node_modules"} & set(inside.parts[:-1]) or not tests and file.name.endswith("_test.go"):
            continue
        if not file.is_file() or not 200 <= file.stat().st_size <= LARGEST:
            continue
        data = file.read_bytes()
        if re.search(rb"(?m)^// .*(Code generated|DO NOT EDIT)", data[:4000]) or b"\0" in data:
            continue
        try:
            yield Document(f"{name}/{inside}", data.decode().replace("\r\n", "\n"))
        except UnicodeDecodeError:
            continue


def prose(text):
    """Whether a file is to be learned from: no lines nobody would read, and not mostly numbers."""
    return max(map(len, text.split("\n"))) < 1000 and sum(map(str.isdigit, text)) < 0.15 * len(text)


def without_terms(text):
    """A file of a module without the licence's notice in front: a hundred tokens, the same everywhere."""
    match = re.match(r"((//[^\n]*\n)+|/\*.*?\*/\n)\n*", text, re.DOTALL)
    return text[match.end():] if match and re.search(r"(?i)copyright|licen[sc]e", match[0]) else text


def lines(text):
    return {hash(line) for line in map(str.strip, text.split("\n")) if len(line) >= 20 and not line.startswith("// ")}


def held_out(path):
    """Whether a file of the standard library belongs to a package that is held out."""
    package = path.removeprefix("std/").rpartition("/")[0]
    if re.search(r"(^|/)(cmd|internal|_[^/]*)(/|$)", package):
        return False
    return int(hashlib.sha256(package.encode()).hexdigest(), 16) % HELD == 0


def collect():
    """Returns the documents to learn from, and those held out."""
    std = list(sources(Path(go("env", "GOROOT").strip()) / "src", "std", tests=True))
    held = [d for d in std if held_out(d.path)]
    secret, seen, kept = set().union(*(lines(d.text) for d in held)), set(), []
    print(f"corpus: {len(held)} files of {len({d.path.rpartition('/')[0] for d in held})} packages held out, {sum(len(d.text) for d in held) / 1e6:.2f} MB")

    def take(name, documents):
        size, dropped = 0, 0
        for d in documents:
            own = lines(d.text)
            if not prose(d.text) or len(own & seen) > 0.5 * len(own) or len(own & secret) > 0.25 * len(own):
                dropped += 1
                continue
            seen.update(own)
            kept.append(d)
            size += len(d.text)
        print(f"corpus: {size / 1e6:7.2f} MB {name}, {dropped} files left out")

    take("std", [d for d in std if not held_out(d.path)])
    for name, folder in sorted(modules(), key=lambda m: not m[0].startswith("golang.org/x/")):
        files = sources(folder, name, tests=name.startswith("golang.org/x/"))
        take(name, [Document(d.path, without_terms(d.text)) for d in files])
    print(f"corpus: {len(kept)} files, {sum(len(d.text) for d in kept) / 1e6:.1f} MB, of which {sum(len(d.text) for d in kept if d.often > 1) / 1e6:.1f} MB are read twice")
    return kept, held


def write(path, documents):
    """A compressed file of documents: path, line feed, text, zero byte."""
    plain = "".join(f"{d.path}\n{d.text}\0" for d in documents).encode()
    path.write_bytes(lzma.compress(plain, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 64 << 20}]))


def read(path):
    return [Document(*text.split("\n", 1)) for text in lzma.decompress(Path(path).read_bytes()).decode().split("\0")[:-1]]

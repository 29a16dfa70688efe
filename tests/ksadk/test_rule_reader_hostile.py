"""Rules that are badly written, by a slip or on purpose: each is one bad rule, and what denies still does."""

from __future__ import annotations

import time

import pytest

from ksadk.tools.rule_reader import Entry, read_rules


def one(text: str) -> Entry:
    [entry] = read_rules("rules.yaml", f"rules:\n  - {text}\n".encode(), "user").entries
    return entry


@pytest.mark.parametrize("key", ["{a: b}", "[a]", "1", "null", "true"])
def test_a_key_that_is_no_text_makes_a_bad_rule(key: str) -> None:
    bad = one(f"{{deny: x, where: {{? {key} : c}}}}")
    assert "a key is no text" in bad.problem
    assert bad.rule is not None
    assert (bad.rule.verdict, bad.rule.tool) == ("deny", "x")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("deny: a\n    deny: b", ("deny", "*")),
        ("deny: a\n    deny: a", ("deny", "a")),
        ("deny: a\n    ask: b", ("deny", "*")),
        ("ask: a\n    reason: r\n    ask: b", ("ask", "*")),
        ("allow: a\n    reason: r\n    deny: b", ("deny", "b")),
        ("DENY: x", ("deny", "x")),
        ("Deny: x\n    allow: y", ("deny", "x")),
        ("[deny, x]", ("deny", "x")),
        ("[deny x]", ("deny", "x")),
        ("[{deny: x}]", ("deny", "x")),
        ("- deny: x\n    - deny: y", ("deny", "*")),
        ("[deny, x, y]", ("deny", "*")),
        ("DENY x", ("deny", "x")),
        ("denny x", ("deny", "x")),
        ("{allow: read_*, denny: write_*}", ("deny", "write_*")),
        ("{denny: write_*, allow: read_*}", ("deny", "write_*")),
        ("{disallow: x}", ("deny", "x")),
        ("{deny x: }", ("deny", "*")),
        ("{rule: {deny: x}}", ("deny", "x")),
        ("{<<: {deny: x}, where: {a: b}}", ("deny", "x")),
        ("{allow: x, ? {a: b} : c}", None),
        ("{tool: x, where: {deny: y}}", None),
        ("[allow, x]", None),
        ("&a [*a]", None),
        ("{Allow: x}", None),
    ],
)
def test_a_bad_rule_does_the_strictest_that_it_may_have_meant(
    text: str, instead: tuple[str, str] | None
) -> None:
    bad = one(text)
    assert bad.problem
    assert (bad.rule and (bad.rule.verdict, bad.rule.tool)) == instead


@pytest.mark.parametrize("value", ["", "null", "1", "{any: [a, null]}", "{any: [null]}"])
@pytest.mark.parametrize("argument", ["path", "url"])
def test_an_empty_path_or_url_makes_a_bad_rule(argument: str, value: str) -> None:
    bad = one(f"deny: x\n    where:\n      {argument}: {value}")
    assert "a text is expected" in bad.problem
    assert bad.rule is not None
    assert (bad.rule.tool, bad.rule.where) == ("x", {})


@pytest.mark.parametrize(
    ("condition", "given", "allows", "denies"),
    [
        ("{any: [{equals: [1, 2]}, a]}", ["a", "a"], True, True),
        ("{any: [{equals: [1, 2]}, a]}", ["a", "b"], False, True),
        ("{any: [{equals: [1, 2]}, a, b]}", ["a", "b"], True, True),
        ("{any: [{equals: [1, 2]}, a]}", [1, 2], True, True),
        ("{any: [{equals: [1, 2]}, a]}", [1], False, False),
        ("{any: [{any: [{equals: [1, 2]}, a]}, b]}", ["a", "b"], True, True),
        ("{any: [{equals: [1, 2]}, {equals: []}]}", [], True, True),
        ("{any: [{equals: [1, 2]}]}", [1, 2], True, True),
    ],
)
def test_each_member_of_any_is_judged_in_its_own_way(
    condition: str, given: list[object], allows: bool, denies: bool
) -> None:
    for verdict, wanted in (("allow", allows), ("deny", denies)):
        entry = one(f"{verdict}: x\n    where: {{items: {condition}}}")
        assert entry.rule is not None
        assert entry.rule.matches("x", {"items": given}) is wanted, verdict


@pytest.mark.parametrize(
    ("value", "given", "allows", "denies"),
    [
        ("true", True, True, True),
        ("true", "true", False, True),
        ("1", "1", False, True),
        ("1", 1, True, True),
        ("1", 1.0, True, True),
        ("'true'", "true", True, True),
        ("'true'", True, False, False),
        ("null", "null", False, True),
        ("{any: [true, 1]}", "true", False, True),
    ],
)
def test_the_text_of_a_value_is_denied_with_it_and_not_allowed(
    value: str, given: object, allows: bool, denies: bool
) -> None:
    for verdict, wanted in (("allow", allows), ("deny", denies)):
        entry = one(f"{verdict}: x\n    where: {{content: {value}}}")
        assert entry.rule is not None
        assert entry.rule.matches("x", {"content": given}) is wanted, verdict


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (f"where: {{a: {{any: [{', '.join('b' * 200)}]}}}}", ""),
        (f"where: {{a: {{any: [{', '.join('b' * 201)}]}}}}", "at most 200 cond"),
        (f"where: {{a: {{any: [{{any: [{', '.join('b' * 199)}]}}, c]}}, d: e}}", "at most 200 cond"),
        (f"where: {{{', '.join(f'a{at}: b' for at in range(201))}}}", "at most 200 cond"),
        (f"not_match: [{', '.join('y' * 50)}]", ""),
        (f"not_match: [{', '.join('y' * 51)}]", "at most 50 calls"),
        (f"match: [x]\n    not_match: [{', '.join('y' * 50)}]", "at most 50 calls"),
    ],
)
def test_a_rule_has_bounds(rest: str, words: str) -> None:
    entry = one(f"deny: x\n    {rest}")
    assert words in entry.problem
    assert bool(entry.problem) is bool(words)
    assert entry.rule is not None
    assert entry.rule.tool == "x"


def test_rules_behind_the_bound_of_a_file_are_bad_and_what_denies_still_does() -> None:
    text = "rules:\n" + "- allow: x\n" * 2_000 + "- allow: y\n- deny: z\n  where: {a: b}\n"
    entries = read_rules("rules.yaml", text.encode(), "user").entries
    assert not any(entry.problem for entry in entries[:2_000])
    allow, deny = entries[2_000:]
    assert allow.rule is None
    assert deny.rule is not None
    assert (deny.rule.tool, deny.rule.where) == ("z", {})
    assert "at most 2,000 rules" in deny.problem


def test_conditions_times_self_tests_end_soon() -> None:
    condition, calls = ", ".join("a" * 24_000), ", ".join("y" * 9_000)
    begun = time.perf_counter()
    bad = one(f"deny: x\n    where: {{path: {{any: [{condition}]}}}}\n    not_match: [{calls}]")
    assert bad.problem
    assert time.perf_counter() - begun < 10


def test_long_globs_times_long_paths_end_soon() -> None:
    glob, path = "**/" + "a/" * 400 + "b", "/".join("a" * 30_000)
    begun = time.perf_counter()
    bad = one(
        f"deny: x\n    where: {{path: '{glob}'}}\n"
        f"    not_match: [&a {{tool: x, arguments: {{path: {path}}}}}, *a, *a, *a]"
    )
    assert "too long to be tried" in bad.problem
    assert bad.rule is not None
    assert time.perf_counter() - begun < 5
